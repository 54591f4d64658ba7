/** Tries tools of a gateway that has its own authorization server: the console logs in there as an MCP client. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser, Page } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { WorkloadLogins } from '../../console/mcp/logins.ts'
import { startBrowser } from '../support/browser.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { ownHost } from '../support/gateway/own-host.ts'
import { type LoginProvider, startLoginProvider } from '../support/identity/login-provider.ts'
import { freePort } from '../support/network/free-port.ts'
import { object } from '../support/operator/standalone-run.ts'
import { server as listed, registryFile } from '../support/registry/registry.ts'
import { group, OpenConsole, server } from './support.ts'

let provider: LoginProvider
let one: OpenConsole
let browser: Browser
const folder = temporaryFolder()

const gateway = (name: string, port: number, cimd: boolean) => {
  const issuer = `http://${ownHost}:${port}`
  const auth = `{type: oidc, audience: "${issuer}/mcp", oidcConfigRef: {name: ${name}, resourceUrl: "${issuer}/mcp", scopes: [tools]}}`
  const upstream = `{name: corp, type: oidc, oidcConfig: {issuerUrl: "${provider.issuer}", clientId: "${provider.client.id}", clientSecretRef: {name: corp, key: secret}, scopes: [openid]}}`
  return [
    object(
      'VirtualMCPServer',
      name,
      `  annotations: {portico.dev/local-port: "${port}"}\nspec:\n  groupRef: {name: all}\n  incomingAuth: ${auth}\n  authServerConfig: {issuer: "${issuer}", cimd: {enabled: ${cimd}}, upstreamProviders: [${upstream}]}\n`,
    ),
    object('MCPOIDCConfig', name, `spec: {type: inline, inline: {issuer: "${issuer}"}}\n`),
  ]
}

/** A gateway whose callers log in directly at the provider, and are counted. */
const directGateway = (port: number) => {
  const url = `http://${ownHost}:${port}/mcp`
  const auth = `{type: oidc, audience: "${url}", oidcConfigRef: {name: direct, resourceUrl: "${url}", scopes: [openid]}}`
  return [
    object(
      'VirtualMCPServer',
      'direct',
      `  annotations: {portico.dev/local-port: "${port}"}\nspec:\n  groupRef: {name: all}\n  incomingAuth: ${auth}\n  config: {usage: {enabled: true, people: digest}}\n`,
    ),
    object(
      'MCPOIDCConfig',
      'direct',
      `spec: {type: inline, inline: {issuer: "${provider.issuer}", jwksAllowPrivateIP: true}}\n`,
    ),
  ]
}

test.before(async () => {
  const ports = [await freePort(), await freePort(), await freePort()] as const
  provider = await startLoginProvider(ports.slice(0, 2).map((port) => `http://${ownHost}:${port}/oauth/callback`))
  provider.user = 'ada'
  const secret = `apiVersion: v1\nkind: Secret\nmetadata: {name: corp}\nstringData: {secret: "${provider.client.secret}"}\n`
  const source = (team: string) => {
    const path = folder.write(`${team}.json`, registryFile([listed(`com.example/${team}`)]))
    return `{name: ${team}, file: {path: "${path}"}, claims: {team: ${team}}}`
  }
  const catalog = `http://127.0.0.1:${await freePort()}`
  const issuer = `{name: corp, issuerUrl: "${provider.issuer}", audience: "${catalog}", allowPrivateIP: true}`
  const manifests = [
    object(
      'MCPRegistry',
      'catalog',
      `  annotations: {portico.dev/local-port: "${new URL(catalog).port}"}\nspec:\n  sources: [${source('red')}, ${source('blue')}]\n  registries: [{name: main, sources: [red, blue]}]\n  auth: {mode: oauth, oauth: {resourceUrl: "${catalog}", providers: [${issuer}]}, authz: {roles: {}}}\n`,
    ),
    group,
    `${server('clock')}  secrets: [{name: corp, key: secret, targetEnvName: TOKEN}]\n`,
    secret,
    ...gateway('document', ports[0], true),
    ...gateway('registers', ports[1], false),
    ...directGateway(ports[2]),
  ]
  one = await OpenConsole.start(manifests.join('---\n'))
  browser = await startBrowser()
})
test.after(async () => {
  await browser?.close()
  folder[Symbol.dispose]()
  await one?.[Symbol.asyncDispose]()
  await provider?.close()
})

const clickAndWait = async (page: Page, selector: string) =>
  Promise.all([page.waitForNavigation({ timeout: 60_000 }), page.locator(selector).click()])
const text = (page: Page) => page.evaluate('document.body.innerText') as Promise<string>
const waitForText = (page: Page, text: RegExp) =>
  eventually(`the page shows ${text}`, async () =>
    text.test((await page.evaluate('document.body.innerText')) as string),
  )

/** Opens a separate browser context with a session at the console. */
async function newcomer(): Promise<Page> {
  const page = await (await browser.createBrowserContext()).newPage()
  page.setDefaultTimeout(60_000)
  await page.goto(await one.link())
  return page
}

/**
 * Logs in from a page of the console, through the page that names the host, and through the consent page if the gateway
 * shows one.
 */
async function logIn(page: Page, back: string, asksConsent: boolean): Promise<void> {
  await clickAndWait(page, 'button[name=login]')
  const host = asksConsent ? `${ownHost}:` : new URL(provider.issuer).host
  assert.match(await page.$eval('h1', (title) => title.textContent ?? ''), `Log in at ${host}`)
  await page.locator('.acts a.button').click()
  if (asksConsent) await page.locator('button[value=allow]').click()
  await page.waitForFunction(`location.pathname === ${JSON.stringify(back)}`, { timeout: 60_000 })
  await page.waitForSelector('h1')
}

/** Logs in for a gateway's tool and runs it; typed values survive a login that becomes necessary in between. */
async function runsAfterLogin(name: string, asksConsent: boolean): Promise<void> {
  await using context = await browser.createBrowserContext()
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  await page.goto(await one.link())
  const path = `/ns/default/vmcp/${name}/tools/clock_convert_time`
  await page.goto(one.url + path)
  await logIn(page, path, asksConsent)
  await page.type('[name="arg.time"]', '2026-11-20T15:00')
  await page.type('[name="arg.from"]', 'Europe/Lisbon')
  await page.type('[name="arg.to"]', '["Asia/Tokyo"]')
  await page.click('form[data-try] button')
  await waitForText(page, /2026-11-21 00:00\s+Asia.Tokyo/)
  const html = await page.content()
  assert.not.match(html, /eyJ[\w-]+\.[\w-]+\./)
  await page.goto(`${one.url}/ns/default/vmcp/${name}/tools`)
  const other = await context.newPage()
  await other.goto(one.url + path)
  await other.type('[name="arg.from"]', 'Africa/Cairo')
  // Chromium draws only the tab in front.
  await page.bringToFront()
  await clickAndWait(page, 'button[name=forget]')
  await other.bringToFront()
  await other.click('form[data-try] button')
  await waitForText(other, /Callers need a token/)
  await logIn(other, path, asksConsent)
  assert.is(
    await other.$eval('[name="arg.from"]', (input) => (input as unknown as { value: string }).value),
    'Africa/Cairo',
  )
}

for (const name of ['document', 'registers'])
  test(`a tool runs after a login at a gateway that knows the console by what it ${name}`, () =>
    runsAfterLogin(name, true))

test('20: a tool of a gateway whose callers log in at a provider runs after a login there', async () => {
  provider.isOpen = true
  provider.resourceClaims = {}
  await runsAfterLogin('direct', false)
})

test('35: people are counted by a digest, and no page, JSON or CSV names them', async () => {
  await one.open()
  const path = '/ns/default/vmcp/direct/usage?by=person'
  await eventually('the call is counted', async () => (await one.json(path)).facts.rows.length > 0)
  const { facts } = await one.json(path)
  assert.is(facts.rows.length, 1)
  const [{ name, calls }] = facts.rows
  assert.ok(name.length > 8 && calls > 0, JSON.stringify(facts.rows))
  for (const text of [await one.text(path), JSON.stringify(facts), await one.text(`${path}&format=csv`)]) {
    assert.ok(text.includes(name))
    assert.not.match(text, /\bada\b/i)
  }
})

test('44: no page has the value of a Secret', async () => {
  const { rows } = (await one.json('/workloads?kind=all')).facts
  assert.ok(rows.length >= 9, String(rows.length))
  const parts = ['', '/tools', '/access', '/map', '/changes', '/usage', '/connect', '/yaml', '/log']
  const paths = rows.flatMap(({ href }: { href: string }) => parts.map((part) => href + part))
  for (const path of ['/', '/workloads?kind=all', '/map?outside=yes', ...paths])
    for (const accept of ['text/html', 'application/json']) {
      const answer = await one.get(path, { accept })
      assert.ok([200, 404].includes(answer.status), `${path}: ${answer.status}`)
      assert.not.match(await answer.text(), provider.client.secret, path)
    }
  assert.match(await one.text('/ns/default/mcpserver/clock/yaml'), 'targetEnvName: TOKEN')
})

test('a login goes only to the issuer of the configuration, and to endpoints that are safe', async () => {
  let metadata: Record<string, unknown> = {}
  const server = createServer((request, response) => {
    const isResource = request.url?.includes('oauth-protected-resource') === true
    const issuer = `http://${request.headers.host}`
    const resource = { resource: 'http://127.0.0.1:1/mcp', authorization_servers: [issuer] }
    response.end(JSON.stringify(isResource ? resource : { issuer, ...metadata }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const begin = (issuers: readonly string[], origin = 'http://127.0.0.1:4480') =>
    new WorkloadLogins().begin({
      ...{ session: 's', workload: 'w', metadataUrl: `${at}/.well-known/oauth-protected-resource`, issuers },
      ...{ origin, back: '/', values: {} },
    })
  const endpoints = { authorization_endpoint: `${at}/a`, token_endpoint: `${at}/t` }
  const documents = { client_id_metadata_document_supported: true }
  try {
    for (const [issuers, document, expected] of [
      [[], { ...endpoints, ...documents }, 'names no authorization server'],
      [['https://login.example.com'], { ...endpoints, ...documents }, 'names no authorization server'],
      [[at], { ...endpoints, ...documents, authorization_endpoint: 'javascript:alert(1)' }, 'can’t be used'],
      [[at], { ...endpoints, ...documents, token_endpoint: 'http://other.example.com/t' }, 'can’t be used'],
      [[at], { ...endpoints, ...documents, issuer: 'https://login.example.com' }, 'can’t be used'],
      [[at], { token_endpoint: `${at}/t` }, 'can’t be used'],
      [[at], endpoints, 'neither by document nor by registration'],
      [[at], { ...endpoints, registration_endpoint: `${at}/r` }, 'does not register the console'],
    ] as const) {
      metadata = document
      const refused = await begin(issuers).then(String, (error: Error) => error.message)
      assert.match(refused, expected)
    }
    metadata = { ...endpoints, ...documents }
    const url = new URL(await begin([`${at}/`]))
    assert.is(url.searchParams.get('client_id'), 'http://127.0.0.1:4480/client.json')
    assert.is(url.searchParams.get('resource'), 'http://127.0.0.1:1/mcp')
    assert.is(url.searchParams.get('code_challenge_method'), 'S256')
  } finally {
    server.closeAllConnections()
    server.close()
  }
})

test('a callback without a login of this session is refused, and its parameters are shown as text', async () => {
  await one.open()
  for (const query of ['code=x&state=y', 'error=<script>alert(1)</script>&state=y', '']) {
    const answer = await one.get(`/client/callback?${query}`)
    assert.is(answer.status, 403)
    assert.not.match(await answer.text(), '<script>alert')
  }
})

test('authorization servers can read the console’s client document without a session', async () => {
  const document = (await (await fetch(`${one.url}/client.json`)).json()) as Record<string, unknown>
  assert.is(document['client_id'], `${one.url}/client.json`)
  assert.equal(document['redirect_uris'], [`${one.url}/client/callback`])
  assert.is(document['token_endpoint_auth_method'], 'none')
})

test('the catalog shows a team its entries after a login, and explains why others are not shown', async () => {
  provider.isOpen = true
  provider.resourceClaims = { team: 'red' }
  const page = await newcomer()
  await page.goto(`${one.url}/catalog`)
  assert.match(await text(page), 'need a token')
  await clickAndWait(page, 'button[name=login]')
  assert.match(await page.$eval('h1', (title) => title.textContent ?? ''), `Log in at ${new URL(provider.issuer).host}`)
  await page.locator('.acts a.button').click()
  await page.waitForFunction("location.pathname === '/catalog/main' && document.querySelector('main h1') !== null")
  const names = () => page.$$eval('.cards h3', (found) => found.map(({ textContent }) => textContent))
  await eventually('its source is read', async () => {
    await page.reload()
    return (await names()).length > 0
  })
  assert.equal(await names(), ['com.example/red'])
  await page.type('[name=why]', 'com.example/blue')
  await clickAndWait(page, 'form:has([name=why]) button')
  assert.match(await text(page), /not shown to you\s+com.example.blue/)
  await page.browserContext().close()
})

test('Connect shows how a client logs in: where, for which resource, with which scopes, and how it registers', async () => {
  const page = await newcomer()
  const cookies = await page.browserContext().cookies()
  one.cookie = cookies.map(({ name, value }) => `${name}=${value}`).join('; ')
  for (const [name, cimd, dcr, says] of [
    ['document', true, true, 'by metadata document (CIMD)'],
    ['registers', false, true, 'dynamic (DCR)'],
  ] as const) {
    const { facts } = await one.json(`/ns/default/vmcp/${name}/connect`)
    const { login, url, setups } = facts
    const issuer = url.replace(/\/mcp$/, '')
    const { host } = new URL(issuer)
    assert.equal(login, { issuer, host, resource: url, scopes: ['tools'], cimd, dcr, problem: null })
    const curl = setups.find(({ client }: { client: string }) => client === 'curl').text
    assert.match(curl, '-H "Authorization: Bearer $TOKEN"')
    await page.goto(`${one.url}/ns/default/vmcp/${name}/connect`)
    const content = await text(page)
    for (const part of ['Callers need a token', host, 'tools', says, 'Redirect address']) assert.match(content, part)
  }
  const { facts } = await one.json('/ns/default/mcpreg/catalog/connect')
  assert.equal([facts.login.issuer, facts.login.cimd, facts.login.dcr], [provider.issuer, false, true])
  assert.match(facts.setups.at(-1).text, 'Bearer $TOKEN')
  await page.browserContext().close()
})

test.run()
