import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import pino from 'pino'
import type { Browser } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { WorkloadTokens } from '../../console/mcp/tokens.ts'
import { ClusterPlaces } from '../../console/places/cluster.ts'
import { serveConsole } from '../../console/serve.ts'
import { ApiError, type ApiServer } from '../../operator/cluster/kubernetes/api-server.ts'
import { findViolations } from '../support/accessibility.ts'
import { startBrowser } from '../support/browser.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { type LoginProvider, startLoginProvider } from '../support/identity/login-provider.ts'
import { freePort } from '../support/network/free-port.ts'
import { stoppedClock } from '../support/stopped-clock.ts'

const folder = temporaryFolder()
const tokens: string[] = []
let accepts = true
/** The delayed answers; undefined: answers are not delayed. */
let pending: (() => void)[] | undefined
/** A stand-in for an API server that trusts the provider: it returns the user name of a token, and has no objects. */
const api = createServer((request, response) => {
  tokens.push(request.headers.authorization ?? '')
  const isReview = request.url?.endsWith('/selfsubjectreviews')
  const status = accepts ? (isReview ? 201 : 404) : 401
  const answer = () => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(accepts && isReview ? { status: { userInfo: { username: 'ada' } } } : { reason: 'x' }))
  }
  if (pending === undefined) answer()
  else pending.push(answer)
})
let provider: LoginProvider
let served: Awaited<ReturnType<typeof serveConsole>>
let url: string
let browser: Browser

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
  browser = await startBrowser()
})
test.after(async () => {
  await browser?.close()
  await served?.close()
  await provider?.close()
  api.closeAllConnections()
  api.close()
  folder[Symbol.dispose]()
})

test('a login at the provider returns to the requested page, query included', async () => {
  await using context = await browser.createBrowserContext()
  const page = await context.newPage()
  await page.goto(`${url}/workloads?q=a`)
  await eventually('the page is there', async () => page.url() === `${url}/workloads?q=a`).catch(async (error) => {
    throw new Error(`${error.message} ${page.url()} ${await page.evaluate('document.body.innerText')}`)
  })
  await page.waitForSelector('h1')
  assert.match((await page.evaluate('document.body.innerText')) as string, 'ada')
  const html = await page.content()
  for (const token of new Set(tokens)) assert.not.match(html, token.slice('Bearer '.length, 60))
  assert.ok(tokens.every((token) => /^Bearer ey/.test(token)))

  // After the logout a copy of the cookies is invalid, and the provider returns no token for it.
  const cookie = (await page.browserContext().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ')
  const status = async () => (await fetch(`${url}/`, { headers: { cookie }, redirect: 'manual' })).status
  assert.is(await status(), 200)
  const form = (await page.$eval('form[action="/logout"] input', (input) => input.getAttribute('value'))) ?? ''
  const sent = { method: 'POST', headers: { cookie, origin: url }, redirect: 'manual' } as const
  assert.is((await fetch(`${url}/logout`, { ...sent, body: new URLSearchParams({ form: 'x' }) })).status, 403)
  assert.is(await status(), 200)
  assert.is((await fetch(`${url}/logout`, { ...sent, body: new URLSearchParams({ form }) })).status, 303)
  assert.is(await status(), 303)
  await eventually('the refresh token is revoked', () => provider.requests.includes('POST /token/revocation'))
})

test('66: if the token of a session has expired and can’t be refreshed, one login returns to the page and its query', async () => {
  await using context = await browser.createBrowserContext()
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  const waitForPath = (path: string) =>
    page.waitForFunction(
      `location.href === ${JSON.stringify(url + path)} && document.querySelector('main h1') !== null`,
    )
  await page.goto(`${url}/workloads`)
  await waitForPath('/workloads')
  // The provider refuses to exchange the first token.
  let refreshes = 0
  provider.before = async (request, response) => {
    if (request.url !== '/token') return false
    const chunks: Buffer[] = []
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    const body = Buffer.concat(chunks).toString()
    if (!body.includes('grant_type=refresh_token')) {
      Object.assign(request, { body: Object.fromEntries(new URLSearchParams(body)) })
      return false
    }
    refreshes++
    response.writeHead(400, { 'content-type': 'application/json' }).end('{"error":"invalid_grant"}')
    return true
  }
  const logins = provider.authorizations.length
  try {
    // The provider's ID tokens are valid for an hour, and so is an idle session.
    using clock = stoppedClock()
    clock.pass(3_590_000)
    const json = await page.evaluate(
      `fetch('/workloads', {headers: {accept: 'application/json'}}).then(async (answer) => [answer.status, (await answer.json()).error])`,
    )
    assert.equal(json, [401, 'session_ended'])
    assert.is(provider.authorizations.length, logins)
    await page.goto(`${url}/workloads?q=a+b&state=ill&sort=name`).catch((error: Error) => {
      // The provider's own redirects may overtake the load.
      if (!error.message.includes('ERR_ABORTED')) throw error
    })
    await waitForPath('/workloads?q=a+b&state=ill&sort=name')
    assert.is(provider.authorizations.length, logins + 1)
    assert.is(refreshes, 1)
    assert.is(await page.$eval('main [name=q]', (input) => (input as unknown as { value: string }).value), 'a b')
  } finally {
    provider.before = undefined
  }
})

test('a refused login says why and leads to the next one; a logout ends at a page of its own', async () => {
  await using browser = await startBrowser()
  const page = await browser.newPage()
  page.setDefaultTimeout(60_000)
  const waitForPage = async (path: string, title: string) => {
    const heading = `document.querySelector('main h1')?.textContent`
    await page.waitForFunction(`location.pathname === '${path}' && ${heading} === '${title}'`)
    assert.equal(await findViolations(page), [], path)
    return (await page.evaluate('document.body.innerText')) as string
  }
  const click = (selector: string) =>
    page.$eval(selector, (element) => (element as unknown as { click(): void }).click())
  provider.user = undefined
  try {
    await page.goto(`${url}/workloads`)
    assert.match(await waitForPage('/login/callback', 'Not logged in'), 'The provider says: access_denied: no.')
  } finally {
    provider.user = 'ada'
  }
  await click('main a.button[href="/login"]')
  await waitForPage('/', 'cluster')
  const logins = provider.authorizations.length
  await click('form[action="/logout"] button')
  const { host } = new URL(provider.issuer)
  assert.match(await waitForPage('/logged-out', 'You are logged out'), `You may still be logged in at ${host}`)
  assert.is(provider.authorizations.length, logins)
  const json = await page.evaluate(`fetch('/', {headers: {accept: 'application/json'}}).then(({status}) => status)`)
  assert.is(json, 401)
  await click('main a.button[href="/login"]')
  await waitForPage('/', 'cluster')
  assert.is(provider.authorizations.length, logins + 1)
})

test('a callback without a login of this browser is refused, and shows nothing of its parameters as markup', async () => {
  for (const query of ['code=x&state=y', 'error=<script>alert(1)</script>&state=y']) {
    const answer = await fetch(`${url}/login/callback?${query}`, { redirect: 'manual' })
    assert.is(answer.status, 403)
    assert.not.match(await answer.text(), '<script>alert')
  }
})

test('if the cluster does not accept the provider’s tokens, the page names both and the flags to set', async () => {
  accepts = false
  await using context = await browser.createBrowserContext()
  const page = await context.newPage()
  await page.goto(url)
  await page.waitForSelector('h1')
  const text = (await page.evaluate('document.body.innerText')) as string
  for (const part of [provider.issuer, provider.client.id, '--oidc-issuer-url', '--oidc-client-id'])
    assert.match(text, part, text)
  accepts = true
})

test('a viewer who tries tokens without end is refused and logs nobody out', async () => {
  const configFile = join(folder.path, 'tokens.yaml')
  const apiUrl = `http://127.0.0.1:${(api.address() as AddressInfo).port}`
  writeFileSync(configFile, `publicUrl: http://127.0.0.1:4480\nlogin: {token: {}}\nkubernetes: {server: "${apiUrl}"}\n`)
  const log = () => pino({ level: 'silent' })
  const console = await serveConsole({ configFile, listen: '127.0.0.1:0', log, environment: {} })
  const logIn = (token: string) =>
    fetch(`${console.url}/login`, {
      method: 'POST',
      headers: { origin: 'http://127.0.0.1:4480' },
      body: new URLSearchParams({ token, to: '/' }),
    })
  try {
    const waiting: (() => void)[] = []
    pending = waiting
    const logins = Array.from({ length: 8 }, (_, index) => logIn(`stranger-${index}`))
    await eventually('eight tokens are checked', () => waiting.length === 8)
    const refused = await logIn('stranger-8')
    assert.is(refused.status, 429)
    assert.is(refused.headers.get('retry-after'), '1')
    assert.is(waiting.length, 8)
    pending = undefined
    for (const answer of waiting) answer()
    for (const login of logins) assert.is((await login).status, 200)
    assert.is((await logIn('ada')).status, 200)
  } finally {
    pending = undefined
    await console.close()
  }
})

test('a viewer who may not read pods does not remove reports that others see', async () => {
  const buildViewer = (id: string) => ({ id, name: id, token: id })
  const places = new ClusterPlaces({
    ...{ title: 'cluster', group: 'portico.dev', namespaces: [], reach: 'address' },
    apiFor: ({ id }) =>
      ({
        request: async () => ({ status: { allowed: true } }),
        async list() {
          if (id === 'mallory') throw new ApiError(403, 'Forbidden', 'pods is forbidden')
          return { metadata: {}, items: [] }
        },
      }) as unknown as ApiServer,
    close: async () => {
      // No connection is open.
    },
  })
  const workload = {
    apiVersion: 'portico.dev/v1',
    kind: 'MCPServer',
    metadata: { name: 'a', namespace: 'b', uid: 'u' },
  }
  const ask = (id: string) => places.reports(buildViewer(id), workload)
  const [theirs, ours] = await Promise.all([ask('mallory'), ask('ada')])
  assert.equal(theirs, [{ missing: 'pods is forbidden' }])
  assert.equal(ours, [{ missing: 'no pod runs' }])
  assert.equal(await ask('mallory'), [{ missing: 'no pod runs' }], 'mallory may see the same as ada')
})

test('the objects of all viewers share one limit: the oldest are dropped, a large list is cut, and the page says so', async () => {
  const requested: string[] = []
  const places = new ClusterPlaces({
    ...{ title: 'cluster', group: 'portico.dev', namespaces: [], reach: 'proxy', mostWorldBytes: 100_000 },
    apiFor: ({ id }) =>
      ({
        async list({ plural }: { readonly plural: string }) {
          if (plural !== 'mcpservers') return { metadata: {}, items: [] }
          requested.push(id)
          const metadata = (index: number) => ({ name: `${id}-${index}`, namespace: 'n', uid: `${id}-${index}` })
          const items = Array.from({ length: id.startsWith('large') ? 60 : 20 }, (_, index) => ({
            metadata: metadata(index),
            spec: { image: 'x'.repeat(900) },
          }))
          return { metadata: {}, items }
        },
      }) as unknown as ApiServer,
    close: async () => {
      // No connection is open.
    },
  })
  const openPage = async (id: string) => {
    const { objects, cut } = await places.world({ id, name: id, token: id })
    return [objects.all().length, cut]
  }
  // A single viewer gets a quarter of the limit.
  assert.equal(await openPage('large'), [23, true])
  for (const id of ['a', 'b', 'c', 'd']) assert.equal(await openPage(id), [20, false])
  assert.equal(
    [await openPage('d'), await openPage('b')],
    [
      [20, false],
      [20, false],
    ],
  )
  assert.equal(requested, ['large', 'a', 'b', 'c', 'd'], 'cached users are not requested again')
  assert.equal(await openPage('large'), [23, true])
  assert.is(requested.length, 6, 'the oldest has gone')
  // Objects that are being read count as well, so a later viewer gets a cut list, and the page says so.
  const crowd = await Promise.all(Array.from({ length: 10 }, (_, index) => openPage(`large-${index}`)))
  const listed = crowd.reduce((sum, [count]) => sum + Number(count), 0)
  assert.ok(listed <= 100 && listed > 80, String(listed))
  assert.ok(crowd.every(([, cut]) => cut))
  assert.equal(await openPage('later'), [20, false], 'their room is free again')
})

test('a session that stores too many tokens drops its own oldest ones', () => {
  const tokens = new WorkloadTokens()
  tokens.set('ada', 'one', 'of-ada')
  for (let index = 0; index < 2_000; index++) tokens.set('mallory', `workload-${index}`, 'x')
  assert.is(tokens.get('ada', 'one'), 'of-ada')
  assert.is(tokens.get('mallory', 'workload-0'), undefined)
  assert.is(tokens.get('mallory', 'workload-1999'), 'x')
  tokens.delete('ada', 'one')
  assert.is(tokens.get('ada', 'one'), undefined)
})

test.run()
