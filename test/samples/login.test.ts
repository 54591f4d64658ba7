/** Runs samples/login as its README describes: one command, and a person who logs in with Chromium. */
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../secrets/watch.ts'
import { startBrowser } from '../support/browser.ts'
import { temporaryFolder } from '../support/folder.ts'
import { connect, readText } from '../support/gateway/clients.ts'
import { REDIRECT, readTokens, TestClient } from '../support/identity/auth-server.ts'
import { freePort } from '../support/network/free-port.ts'
import { RunningPortico } from '../support/operator/running-portico.ts'

const repository = join(import.meta.dirname, '..', '..')

/** Copies the sample and gives it free ports. */
async function copyOfSample() {
  const folder = temporaryFolder()
  const manifests = join(folder.path, 'manifests')
  cpSync(join(repository, 'samples/login'), manifests, { recursive: true })
  symlinkSync(join(repository, 'node_modules'), join(folder.path, 'node_modules'))
  mkdirSync(join(folder.path, 'state'))
  const ports = { 4483: await freePort(), 4501: await freePort(), 4502: await freePort() }
  for (const file of readdirSync(manifests).filter((name) => name.endsWith('.yaml'))) {
    const text = readFileSync(join(manifests, file), 'utf8')
    // All ports in one pass and as whole numbers: a free port may contain another's digits (44501).
    const moved = text.replace(/\b(?:4483|4501|4502)\b/g, (port) =>
      String(ports[port as unknown as keyof typeof ports]),
    )
    writeFileSync(join(manifests, file), moved)
  }
  return { folder, manifests, state: join(folder.path, 'state'), issuer: `http://127.0.0.1:${ports[4483]}` }
}

/** Acts as a person: allows the client, logs in at each provider under the given name, and returns the code. */
async function walkThrough(browser: Browser, url: string, names: readonly string[]): Promise<string> {
  const page = await browser.newPage()
  page.setDefaultTimeout(120_000)
  const answered = page.waitForRequest((request) => request.url().startsWith(REDIRECT), { timeout: 240_000 })
  /** Nothing listens at the address to which the last click leads. */
  const click = (button: string) =>
    Promise.all([page.waitForNavigation().catch(() => undefined), page.locator(button).click()])
  await page.goto(url)
  await click('button[value=allow]')
  for (const name of names) {
    await page.locator('input[name=login]').fill(name)
    await page.locator('input[name=password]').fill('anything')
    await click('button[type=submit]')
  }
  const code = new URL((await answered).url()).searchParams.get('code') ?? ''
  await page.close()
  return secret(code)
}

test('a person logs in at both providers, and each server gets the name at its own provider', async () => {
  const sample = await copyOfSample()
  const portico = new RunningPortico([sample.manifests, '--state', sample.state], {})
  const browser = await startBrowser()
  try {
    const { problems } = await portico.ready()
    assert.equal(
      problems.map(({ reason }) => reason),
      ['NotPersistent'],
    )
    const client = await TestClient.register(sample.issuer, { client_name: 'A client' })
    const code = await walkThrough(browser, client.authorizeUrl({ scope: 'accounts:use' }), ['ada', 'countess'])
    const { access_token: token } = await readTokens(await client.exchange(code))
    const { client: mcp } = await connect(`${sample.issuer}/mcp`, 'modern', {
      headers: { authorization: `Bearer ${token}` },
    })
    const { tools } = await mcp.listTools()
    assert.equal(tools.map(({ name }) => name).sort(), ['home_whoami', 'work_whoami'])
    assert.is(readText(await mcp.callTool({ name: 'work_whoami', arguments: {} })), 'You are ada at work.')
    assert.is(readText(await mcp.callTool({ name: 'home_whoami', arguments: {} })), 'You are countess at home.')
    await mcp.close()
  } finally {
    await browser.close()
    await portico.stop()
    sample.folder[Symbol.dispose]()
  }
})

test.run()
