/** Runs samples/keys as its README describes: one command, and a person who enters a key in Chromium. */
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, Page } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../secrets/watch.ts'
import { startBrowser } from '../support/browser.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { connect, readText } from '../support/gateway/clients.ts'
import { REDIRECT, readTokens, TestClient } from '../support/identity/auth-server.ts'
import { freePort } from '../support/network/free-port.ts'
import { RunningPortico } from '../support/operator/running-portico.ts'

const repository = join(import.meta.dirname, '..', '..')
const KEY = secret<string>('key-ada-1234567890123')

/** Copies the sample and gives it free ports. */
async function copyOfSample() {
  const folder = temporaryFolder()
  const manifests = join(folder.path, 'manifests')
  cpSync(join(repository, 'samples/keys'), manifests, { recursive: true })
  symlinkSync(join(repository, 'node_modules'), join(folder.path, 'node_modules'))
  mkdirSync(join(folder.path, 'state'))
  const ports = { 4483: await freePort(), 4501: await freePort() }
  for (const file of readdirSync(manifests).filter((name) => name.endsWith('.yaml'))) {
    const text = readFileSync(join(manifests, file), 'utf8')
    const moved = text.replace(/\b(?:4483|4501)\b/g, (port) => String(ports[port as unknown as keyof typeof ports]))
    writeFileSync(join(manifests, file), moved)
  }
  return { folder, manifests, state: join(folder.path, 'state'), issuer: `http://127.0.0.1:${ports[4483]}` }
}

const click = (page: Page, button: string) =>
  Promise.all([page.waitForNavigation().catch(() => undefined), page.locator(button).click()])

async function logIn(page: Page, name: string): Promise<void> {
  await page.locator('input[name=login]').fill(name)
  await page.locator('input[name=password]').fill('anything')
  await click(page, 'button[type=submit]')
}

async function connectAs(browser: Browser, issuer: string, name: string) {
  const client = await TestClient.register(issuer, { client_name: 'A client' })
  const page = await browser.newPage()
  page.setDefaultTimeout(120_000)
  const answered = page.waitForRequest((request) => request.url().startsWith(REDIRECT), { timeout: 240_000 })
  await page.goto(client.authorizeUrl({ scope: 'desk:use' }))
  await click(page, 'button[value=allow]')
  await logIn(page, name)
  const code = secret(new URL((await answered).url()).searchParams.get('code') ?? '')
  await page.close()
  const { access_token: token } = await readTokens(await client.exchange(code))
  return connect(`${issuer}/mcp`, 'modern', { headers: { authorization: `Bearer ${token}` } })
}

test('a person gets a link, enters a key in a browser, and the server receives the key of that person', async () => {
  const sample = await copyOfSample()
  const portico = new RunningPortico([sample.manifests, '--state', sample.state], {})
  const browser = await startBrowser()
  try {
    await portico.ready()
    const { client } = await connectAs(browser, sample.issuer, 'ada')
    const answer = await client.callTool({ name: 'tickets_mine', arguments: {} }).then(readText, String)
    const url = /http:\S+\/oauth\/key\?\S+/.exec(answer)?.[0]?.replace(/[.,]$/, '') ?? ''
    const page = await browser.newPage()
    page.setDefaultTimeout(120_000)
    const messages: string[] = []
    page.on('console', (message) => {
      // The browser logs the status of a refused form, which is expected.
      if (!message.text().startsWith('Failed to load')) messages.push(message.text())
    })
    await page.goto(url)
    assert.match(await page.$eval('h1', (title) => title.textContent ?? ''), 'Your key for Tickets')
    // The browser is already logged in at the provider, which asks for nothing.
    await click(page, 'button[value=sign-in]')
    await page.waitForSelector('input[type=password]')
    // By keyboard only: the field has the focus, Enter submits it. Chromium sets the focus when it draws the page.
    const waitForFocus = () =>
      eventually('the field has the focus', async () => (await page.evaluate('document.activeElement.name')) === 'key')
    await waitForFocus()
    const folder = process.env['LOOK']
    if (folder !== undefined) await page.screenshot({ path: join(folder, 'key.png') as never })
    await page.keyboard.type('key-ada-1')
    await click(page, 'form button')
    assert.match(await page.$eval('[role=alert]', (alert) => alert.textContent ?? ''), 'does not look like such a key')
    if (folder !== undefined) await page.screenshot({ path: join(folder, 'key-wrong.png') as never })
    await waitForFocus()
    await page.keyboard.type(KEY)
    await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
    assert.match(await page.$eval('[role=status]', (note) => note.textContent ?? ''), 'The key is kept')
    if (folder !== undefined) await page.screenshot({ path: join(folder, 'keys.png') as never, fullPage: true })
    assert.not.ok((await page.content()).includes(KEY))
    await eventually('the call', async () =>
      (await client.callTool({ name: 'tickets_mine', arguments: {} }).then(readText, String)).includes(
        'ada has no open',
      ),
    )
    assert.equal(messages, [], 'nothing is refused by the policy of the page')
    await client.close()
  } finally {
    await browser.close()
    await portico.stop()
    sample.folder[Symbol.dispose]()
  }
})

test.run()
