import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { serveConsole } from '../../console/serve.ts'
import { startBrowser } from '../support/browser.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { type LoginProvider, startLoginProvider } from '../support/identity/login-provider.ts'
import { freePort } from '../support/network/free-port.ts'

const folder = temporaryFolder()
const tokens: string[] = []
let accepts = true
/** Stands for an API server that trusts the provider: it says who somebody is, and has no objects. */
const api = createServer((request, response) => {
  tokens.push(request.headers.authorization ?? '')
  const isReview = request.url?.endsWith('/selfsubjectreviews')
  const status = accepts ? (isReview ? 201 : 404) : 401
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(accepts && isReview ? { status: { userInfo: { username: 'ada' } } } : { reason: 'x' }))
})
let provider: LoginProvider
let served: Awaited<ReturnType<typeof serveConsole>>
let url: string

test.before(async () => {
  await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve))
  const port = await freePort()
  url = `http://127.0.0.1:${port}`
  provider = await startLoginProvider([`${url}/login/callback`])
  provider.user = 'ada'
  writeFileSync(join(folder.path, 'secret'), provider.client.secret)
  const configFile = join(folder.path, 'console.yaml')
  writeFileSync(
    configFile,
    `publicUrl: ${url}\nlogin: {oidc: {issuerUrl: "${provider.issuer}", clientId: "${provider.client.id}", clientSecretFile: secret, scopes: [openid]}}\nkubernetes: {server: "http://127.0.0.1:${(api.address() as AddressInfo).port}"}\n`,
  )
  served = await serveConsole({
    configFile,
    listen: `127.0.0.1:${port}`,
    log: () => pino({ level: 'silent' }),
    environment: {},
  })
})
test.after(async () => {
  await served?.close()
  await provider?.close()
  api.closeAllConnections()
  api.close()
  folder[Symbol.dispose]()
})

test('a login at the provider ends at the page that was asked for, query included', async () => {
  await using browser = await startBrowser()
  const page = await browser.newPage()
  await page.goto(`${url}/workloads?q=a`)
  await eventually('the page is there', async () => page.url() === `${url}/workloads?q=a`).catch(async (error) => {
    throw new Error(`${error.message} ${page.url()} ${await page.evaluate('document.body.innerText')}`)
  })
  await page.waitForSelector('h1')
  assert.match((await page.evaluate('document.body.innerText')) as string, 'ada')
  const html = await page.content()
  for (const token of new Set(tokens)) assert.not.match(html, token.slice('Bearer '.length, 60))
  assert.ok(tokens.every((token) => /^Bearer ey/.test(token)))
})

test('a callback without a login of this browser is refused, and shows nothing of its parameters as markup', async () => {
  for (const query of ['code=x&state=y', 'error=<script>alert(1)</script>&state=y']) {
    const answer = await fetch(`${url}/login/callback?${query}`, { redirect: 'manual' })
    assert.is(answer.status, 403)
    assert.not.match(await answer.text(), '<script>alert')
  }
})

test('where the cluster does not accept the provider’s tokens, the page names both and the flags', async () => {
  accepts = false
  await using browser = await startBrowser()
  const page = await browser.newPage()
  await page.goto(url)
  await page.waitForSelector('h1')
  const text = (await page.evaluate('document.body.innerText')) as string
  for (const part of [provider.issuer, provider.client.id, '--oidc-issuer-url', '--oidc-client-id'])
    assert.match(text, part, text)
  accepts = true
})

test.run()
