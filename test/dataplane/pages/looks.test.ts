/** Checks every kind of page of the data plane in Chromium: the common style sheet, its bounds and accessibility. */
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { html } from 'hono/html'
import type { Browser } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { CONSOLE_STYLE } from '../../../console/pages/style.ts'
import { keyPage, linksPage, signInPage } from '../../../dataplane/authserver/pages/account-pages.ts'
import { choicePage, consentPage, linkPage, messagePage } from '../../../dataplane/authserver/pages/login-pages.ts'
import { gatewayPage } from '../../../dataplane/gateway/page/gateway-page.ts'
import { type Page, renderPage } from '../../../dataplane/pages/page.ts'
import { BASE_STYLE, STYLE } from '../../../dataplane/pages/style.ts'
import { renderEntry, renderList } from '../../../dataplane/registry/page/pages.ts'
import { findViolations, LOOKS } from '../../support/accessibility.ts'
import { startBrowser } from '../../support/browser.ts'

const LONG = 'a-name-without-an-end-'.repeat(8)
const gateway = 'acme-tools'
const user = { name: 'Ada Lovelace', email: 'ada@example.com' }
const form = { action: 'x', token: 'token' }
const row = (name: string, version: string) => ({
  ...{ name, version, status: 'active' as const, status_message: null, other_meta: null, is_latest: 1, revision: '1' },
  ...{ status_changed_at: '2026-11-01', published_at: '2026-11-01', updated_at: '2026-11-01' },
  document: JSON.stringify({
    ...{ name, version, title: 'Weather', description: 'Forecasts for any place.' },
    remotes: [{ type: 'streamable-http', url: 'https://weather.example.com/mcp' }],
  }),
})
const rows = [row('com.example/weather', '1.2.0'), row(`com.example/${LONG}`, LONG)]
const key = { provider: 'tickets', title: 'Tickets', helpUrl: undefined, maxLength: 100, id: 'delete' }
const linked = {
  ...{ id: 'revoke', name: 'Claude Code', document: undefined, redirectUris: ['http://localhost:1/callback'] },
  ...{ scopes: ['openid', 'tools:call'], since: Date.UTC(2026, 10, 3), endsAt: Date.UTC(2026, 10, 9) },
  providers: [
    { id: 'unlink', host: 'login.example.com', isLinked: true, since: Date.UTC(2026, 10, 3) },
    { id: 'other', host: 'github.com', isLinked: false },
  ],
}
const endpoint = 'https://tools.example.com/mcp'
const metadata = 'https://tools.example.com/.well-known/oauth-protected-resource/mcp'

const PAGES: Readonly<Record<string, Page>> = {
  gateway: gatewayPage({
    ...{ name: gateway, endpoint },
    access: {
      kind: 'open',
      servers: [
        { name: 'clock', health: 'healthy', tools: 3 },
        { name: LONG, health: 'unhealthy', tools: 0 },
      ],
      serverCount: 3,
      tools: [{ name: `clock_${LONG}`, description: 'What time it is now. '.repeat(20) }],
      toolCount: 9,
    },
  }),
  'gateway-login': gatewayPage({
    ...{ name: gateway, endpoint },
    access: {
      ...{ kind: 'login' as const, metadata, authorizationServers: ['https://login.example.com'], scopes: ['tools'] },
      needs: {
        scopes: [{ rule: 'clock_*', scopes: ['clock:read'] }],
        accounts: ['github.com'],
        keys: [{ title: 'Tickets', link: 'https://tools.example.com/oauth/keys/tickets' }],
        linked: 'https://tools.example.com/oauth/sessions',
      },
    },
  }),
  'gateway-empty': gatewayPage({
    ...{ name: gateway, endpoint },
    access: { kind: 'open', servers: [], serverCount: 0, tools: [], toolCount: 0 },
  }),
  catalog: {
    ...renderList({
      registries: ['main', 'other'],
      registry: 'main',
      search: '',
      rows,
      nextCursor: 'x',
      isFirst: false,
    }),
    footer: html`A catalog.`,
  },
  entry: { ...renderEntry({ registry: 'main', rows, more: true }), footer: html`A catalog.` },
  consent: consentPage({
    ...{ gateway, client: { name: 'Claude Code', document: 'https://claude.example.com/client.json' } },
    ...{ redirectUri: 'http://localhost:51234/callback', isRemembered: true, resource: endpoint },
    ...{ scopes: ['openid', 'offline_access', 'tools:call'], providers: ['login.example.com', 'github.com'], ...form },
  }),
  choice: choicePage({
    ...{ gateway, providers: [{ name: 'work', host: 'login.example.com' }], asksForAddress: false, isUnknown: true },
    ...form,
  }),
  address: choicePage({ gateway, providers: [], asksForAddress: true, isUnknown: false, ...form }),
  key: keyPage({
    ...{ gateway, user, provider: 'tickets', title: 'Tickets', helpUrl: 'https://tickets.example.com/keys' },
    ...{ maxLength: 100, since: Date.UTC(2026, 10, 3), problem: 'The server does not know this key.', ...form },
  }),
  link: linkPage({
    ...{ gateway, account: user, provider: 'github', hosts: ['github.com'], ticket: 'ticket', ...form },
  }),
  message: messagePage(gateway, {
    ...{ title: 'This login can’t continue', text: 'It is too old.', advice: 'Begin again.' },
    onward: { href: 'https://client.example.com/', text: 'Back to the program' },
  }),
  sessions: linksPage({
    ...{ gateway, user, links: [linked, { ...linked, name: LONG }], isCut: true, done: 'unlinked', ...form },
    accounts: [{ id: 'd', host: 'github.com', isLinked: true, since: Date.UTC(2026, 10, 3) }],
    keys: [
      { ...key, kept: { since: Date.UTC(2026, 10, 3), end: '5678', isEnding: true, isRefused: false } },
      { ...key, title: 'Wiki' },
    ],
  }),
  'signed-out': signInPage({ gateway, provider: 'login.example.com', ...form }),
}

let browser: Browser
let origin: string
let close: () => void

test.before(async () => {
  const app = new Hono()
  for (const [name, page] of Object.entries(PAGES)) app.get(`/${name}`, (c) => renderPage(c, page))
  const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' })
  await new Promise((resolve) => server.once('listening', resolve))
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  close = () => void server.close()
  browser = await startBrowser()
})
test.after(async () => {
  await browser?.close()
  close?.()
})

test('the style sheet equals the console’s up to its own parts, and is small', () => {
  for (const style of [STYLE, CONSOLE_STYLE]) assert.ok(style.startsWith(BASE_STYLE))
  const own = [STYLE, CONSOLE_STYLE].map((style) => style.slice(BASE_STYLE.length))
  for (const text of own) {
    assert.not.match(text, /#[0-9a-f]{3}/i, 'colours are tokens')
    for (const [size] of text.matchAll(/font-size:[^;}]+/g))
      assert.match(size, /var\(--s\d\)|:1em|:13px/, 'so are sizes')
  }
  assert.ok(gzipSync(STYLE).length <= 3 * 1024, `${gzipSync(STYLE).length}`)
})

test('every page is accessible, loads nothing else, and fits into a narrow window', async () => {
  const page = await browser.newPage()
  const requested: string[] = []
  const messages: string[] = []
  page.on('request', (request) => requested.push(request.url()))
  page.on('console', (message) => messages.push(`${message.text()} ${message.location().url}`))
  const found: string[] = []
  const folder = process.env['KEEP_PICTURES']
  for (const [look, feature] of LOOKS) {
    await page.emulateMediaFeatures([feature])
    for (const name of Object.keys(PAGES)) {
      for (const width of look === 'light' ? [1280, 360] : [1280]) {
        await page.setViewport({ width, height: 800 })
        await page.goto(`${origin}/${name}`)
        assert.is(await page.evaluate('document.documentElement.scrollWidth'), width, `${name} at ${width}`)
        const file = folder && (join(folder, `${name}-${look}-${width}.png`) as `${string}.png`)
        if (file) await page.screenshot({ path: file, fullPage: true })
      }
      found.push(...(await findViolations(page)).map((violation) => `${name} in ${look}: ${violation}`))
    }
  }
  assert.equal(found, [])
  assert.equal([...new Set(requested)].map((url) => new URL(url).pathname.slice(1)).sort(), Object.keys(PAGES).sort())
  // Pages name no icon, so browsers request the default one.
  assert.equal(
    messages.filter((line) => !line.includes('favicon')),
    [],
  )
})

test.run()
