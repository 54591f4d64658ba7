/** Tests the consent page in Chromium: its text, which requests it accepts, and where it leads. */

import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { type Context, Hono } from 'hono'
import type { Browser, Page, SerializedAXNode } from 'puppeteer-core'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { type ConsentQuestion, consentPage, messagePage } from '../../../../dataplane/authserver/pages/login-pages.ts'
import { renderPage } from '../../../../dataplane/pages/page.ts'
import { openPage, startBrowser } from '../../../support/browser.ts'

const QUESTION: ConsentQuestion = {
  gateway: 'acme-tools',
  client: { name: 'Claude Code', document: undefined },
  redirectUri: 'http://localhost:51234/callback',
  isRemembered: false,
  resource: 'https://tools.example.com/mcp',
  scopes: ['openid', 'offline_access', 'tools:call'],
  providers: ['login.example.com', 'github.com'],
  action: 'consent',
  token: 'one-time-token',
}

interface Site {
  readonly origin: string
  readonly app: Hono
  close(): void
}

/** Starts a site of its own: browsers treat another port as another origin. */
async function startSite(): Promise<Site> {
  const app = new Hono()
  const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' })
  await new Promise((resolve) => server.once('listening', resolve))
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, app, close: () => void server.close() }
}

const test = suite('consent')
let browser: Browser
let page: Page
let site: Site
let provider: Site
let federated: Site
/** The bodies that the form posted. */
let posted: string[] = []
let question: ConsentQuestion = QUESTION
let formsLead: 'self' | 'anywhere' | undefined

test.before(async () => {
  browser = await startBrowser()
  site = await startSite()
  provider = await startSite()
  federated = await startSite()
  site.app.get('/consent', (c) => {
    const { formsLead: own = 'self', ...rest } = consentPage(question)
    return renderPage(c, { ...rest, formsLead: formsLead ?? own })
  })
  site.app.post('/consent', async (c) => {
    posted.push(await c.req.text())
    return c.redirect(`${provider.origin}/authorize`, 303)
  })
  site.app.get('/failed', (c) => {
    const advice = 'Go back to your program and connect again.'
    return renderPage(
      c,
      messagePage('acme-tools', { title: 'This login has ended', text: 'It is too old.', advice }),
      400,
    )
  })
  provider.app.get('/authorize', (c) => c.redirect(`${federated.origin}/login`))
  federated.app.get('/login', (c: Context) => c.html('<h1>Log in</h1>'))
  federated.app.get('/frame', (c) => c.html(`<iframe src="${site.origin}/consent" name="inner"></iframe>`))
})
test.before.each(async () => {
  posted = []
  question = QUESTION
  formsLead = undefined
  page = await browser.newPage()
  await page.setJavaScriptEnabled(false)
})
test.after.each(() => page.close())
test.after(async () => {
  await browser?.close()
  for (const one of [site, provider, federated]) one?.close()
})

const open = () => page.goto(`${site.origin}/consent`)
const evaluate = async (expression: string): Promise<string> => String(await page.evaluate(expression))
const text = async () => (await evaluate("document.querySelector('main').innerText")).replace(/\s+/g, ' ')

test('names the client, where its answer goes, the providers and what it asks for', async () => {
  await open()
  const content = await text()
  assert.match(content, 'Allow Claude Code to use acme-tools?')
  assert.match(content, 'registered itself under this name, which nobody has checked')
  assert.match(content, 'a program on this computer localhost:51234')
  assert.match(content, 'To use https://tools.example.com/mcp')
  assert.match(content, 'login.example.com, then github.com')
  assert.match(content, 'know who you are openid')
  assert.match(content, 'stay logged in while you are away offline_access')
  assert.match(content, 'tools:call')
})

test('an answer leads through the redirects of providers, without scripts', async () => {
  await open()
  await Promise.all([page.waitForNavigation(), page.click('button[value=allow]')])
  assert.is(page.url(), `${federated.origin}/login`)
  assert.equal(posted, ['token=one-time-token&decision=allow'])
})

test('redirects of providers would be refused if forms led to the page’s own origin only', async () => {
  formsLead = 'self'
  await open()
  const failed = new Promise<string>((resolve) => page.once('requestfailed', (request) => resolve(request.url())))
  await page.click('button[value=allow]')
  assert.match(await failed, 'http://127.0.0.1:')
  assert.not.match(page.url(), '/login')
})

test('denies by keyboard', async () => {
  await open()
  const readFocus = () => evaluate('document.activeElement.textContent')
  for (let tabs = 0; tabs < 5 && (await readFocus()) !== 'Deny'; tabs++) await page.keyboard.press('Tab')
  assert.is(await readFocus(), 'Deny')
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
  assert.equal(posted, ['token=one-time-token&decision=deny'])
})

test('has a heading and two named buttons for screen readers', async () => {
  await open()
  const tree = await page.accessibility.snapshot()
  const flatten = (node: SerializedAXNode): readonly SerializedAXNode[] => [
    node,
    ...(node.children ?? []).flatMap(flatten),
  ]
  const listNames = (role: string) =>
    flatten(tree as SerializedAXNode).flatMap((node) => (node.role === role ? node.name : []))
  assert.equal(listNames('button'), ['Allow', 'Deny'])
  assert.equal(listNames('heading'), ['Allow Claude Code to use acme-tools?'])
  assert.is(tree?.name, 'Allow Claude Code? · Portico')
})

test('is shown in no frame', async () => {
  await page.goto(`${federated.origin}/frame`)
  const [inner] = page.mainFrame().childFrames()
  assert.is(inner?.url(), 'chrome-error://chromewebdata/')
})

test('names of clients are shown as text', async () => {
  question = {
    ...QUESTION,
    client: { name: '</title><script>alert(1)</script><b>x', document: 'https://client.example.com/meta.json' },
    redirectUri: 'https://exämple.com/cb?a="><script>alert(2)</script>',
    scopes: ['"><script>alert(3)</script>'],
    providers: ['<b>idp</b>'],
    token: '"><script>alert(4)</script>',
  }
  await open()
  assert.is(await page.$('script'), null)
  assert.is(await evaluate("document.querySelector('input[name=token]').value"), question.token)
  const content = await text()
  assert.match(content, 'Allow </title><script>alert(1)</script><b>x to use')
  assert.match(content, 'It is known by its address at client.example.com')
  assert.match(content, 'The answer goes to xn--exmple-cua.com, not to client.example.com')
})

test('an app’s own scheme is named as such', async () => {
  question = { ...QUESTION, client: { name: undefined, document: undefined }, redirectUri: 'cursor://anysphere.mcp/cb' }
  await open()
  const content = await text()
  assert.match(content, 'Allow A program to use acme-tools?')
  assert.match(content, 'the app that opens cursor: links')
})

test('fits every window size, and an error page has the same style', async () => {
  for (const [path, options] of [
    ['/consent', {}],
    ['/consent', { width: 380, dark: true }],
    ['/failed', {}],
  ] as const) {
    const { console: messages, dom } = await openPage(site.origin + path, { ...options, browser })
    assert.is(messages, '')
    assert.match(dom, '<h1>')
  }
})

test.run()
