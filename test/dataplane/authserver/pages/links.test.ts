import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import type { Browser, Page, SerializedAXNode } from 'puppeteer-core'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { type LinkedToUser, linksPage, signInPage } from '../../../../dataplane/authserver/pages/account-pages.ts'
import { renderPage } from '../../../../dataplane/pages/page.ts'
import { openPage, startBrowser } from '../../../support/browser.ts'

/** Tests the pages of linked clients and accounts in Chromium: their text, keyboard use, accessible names and appearance. */

const DAY = 24 * 60 * 60_000
const SINCE = Date.UTC(2026, 10, 3, 9, 30)

const LINKED: LinkedToUser = {
  gateway: 'acme-tools',
  user: { name: 'Ada Lovelace', email: 'ada@example.com' },
  accounts: [],
  keys: [],
  links: [
    {
      id: 'revoke-one',
      name: 'Claude Code',
      document: undefined,
      redirectUris: ['http://localhost:51234/callback', 'http://localhost:51234/other'],
      scopes: ['openid', 'tools:call', 'tools:read'],
      since: SINCE,
      endsAt: SINCE + 7 * DAY,
      providers: [
        { id: 'unlink-one', host: 'login.example.com', isLinked: true, since: SINCE },
        { id: 'unlink-two', host: 'github.com', isLinked: false },
      ],
    },
    {
      id: 'revoke-two',
      name: 'Chat',
      document: 'https://chat.example.com/client.json',
      redirectUris: ['https://chat.example.com/cb', 'cursor://anysphere/cb'],
      scopes: ['tools:read'],
      since: SINCE - 9 * DAY,
      endsAt: SINCE + DAY,
      providers: [{ id: 'unlink-three', host: 'login.example.com', isLinked: true }],
    },
  ],
  isCut: false,
  done: undefined,
  action: 'sessions',
  token: 'page-token',
}

const test = suite('links')
let browser: Browser
let page: Page
let origin: string
let stop: () => void
let posted: string[] = []
let account: LinkedToUser = LINKED

test.before(async () => {
  browser = await startBrowser()
  const app = new Hono()
  app.get('/links', (c) => renderPage(c, linksPage(account)))
  app.get('/signed-out', (c) =>
    renderPage(
      c,
      signInPage({ gateway: 'acme-tools', provider: 'login.example.com', action: 'sessions', token: 'sign-in-token' }),
    ),
  )
  app.get('/frame', (c) => c.html('<iframe src="/links"></iframe>'))
  app.post('/sessions', async (c) => {
    posted.push(await c.req.text())
    return c.redirect('/links', 303)
  })
  const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' })
  await new Promise((resolve) => server.once('listening', resolve))
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  stop = () => void server.close()
})
test.before.each(async () => {
  posted = []
  account = LINKED
  page = await browser.newPage()
  await page.setJavaScriptEnabled(false)
})
test.after.each(() => page.close())
test.after(async () => {
  await browser?.close()
  stop?.()
})

const evaluate = async (expression: string): Promise<string> => String(await page.evaluate(expression))
const text = async () => (await evaluate("document.querySelector('main').innerText")).replace(/\s+/g, ' ')

/** Moves to the button of this name with the keyboard and presses it. */
async function press(name: string): Promise<void> {
  const readFocus = () => evaluate('document.activeElement.ariaLabel ?? document.activeElement.textContent')
  for (let tabs = 0; tabs < 12 && (await readFocus()) !== name; tabs++) await page.keyboard.press('Tab')
  assert.is(await readFocus(), name)
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
}

test('says who is signed in, what each program may, since when, and which accounts it reaches', async () => {
  await page.goto(`${origin}/links`)
  const content = await text()
  assert.match(content, 'You are signed in as Ada Lovelace (ada@example.com).')
  assert.match(content, 'Claude Code It registered itself under this name, which nobody has checked.')
  assert.match(content, 'It is known by its address at chat.example.com.')
  assert.match(content, 'a program on this computer localhost:51234')
  assert.is(content.split('a program on this computer').length, 2)
  assert.match(content, 'the app that opens cursor: links')
  assert.match(content, '3 Nov 2026, 09:30 UTC')
  assert.match(content, 'until 10 Nov 2026, 09:30 UTC if it isn’t used')
  assert.match(content, /login\.example\.com linked since 3 Nov 2026, 09:30 UTC Unlink/)
  assert.match(content, 'github.com not linked')
})

test('signs in, unlinks, revokes, revokes everything and signs out by keyboard, without scripts', async () => {
  for (const [path, name, fields] of [
    ['/signed-out', 'Sign in at login.example.com', 'token=sign-in-token&action=sign-in'],
    ['/links', 'Unlink login.example.com from Claude Code', 'token=page-token&unlink=unlink-one'],
    ['/links', 'Revoke Chat, allowed 25 Oct 2026, 09:30 UTC', 'token=page-token&revoke=revoke-two'],
    ['/links', 'Sign out', 'token=page-token&action=sign-out'],
  ] as const) {
    posted = []
    await page.goto(origin + path)
    await press(name)
    assert.equal(posted, [fields])
  }
  await page.goto(`${origin}/links`)
  for (let tabs = 0; tabs < 12; tabs++) {
    await page.keyboard.press('Tab')
    if ((await evaluate('document.activeElement.tagName')) === 'SUMMARY') break
  }
  await page.keyboard.press('Enter')
  await press('Revoke everything now')
  assert.equal(posted.at(-1), 'token=page-token&action=revoke-all')
})

test('has headings in order, and each button has a name of its own', async () => {
  account = { ...LINKED, done: 'revoked' }
  await page.goto(`${origin}/links`)
  const tree = await page.accessibility.snapshot()
  const flatten = (node: SerializedAXNode): readonly SerializedAXNode[] => [
    node,
    ...(node.children ?? []).flatMap(flatten),
  ]
  const nodes = flatten(tree as SerializedAXNode)
  const buttons = nodes.flatMap(({ role, name }) => (role === 'button' ? name : []))
  assert.is(new Set(buttons).size, buttons.length)
  assert.ok(buttons.length >= 5)
  assert.equal(
    nodes.flatMap(({ role, name, level }) => (role === 'heading' ? `${level} ${name}` : [])),
    ['1 What is linked to you', '2 Claude Code', '2 Chat'],
  )
  assert.is(await evaluate("document.querySelector('[role=status]').textContent"), SAID_REVOKED)
  assert.is(tree?.name, 'What is linked to you · Portico')
  assert.is(await evaluate("document.querySelectorAll('th:not([scope])').length"), '0')
  assert.is(await evaluate("document.querySelectorAll('time:not([datetime])').length"), '0')
})
const SAID_REVOKED = 'Access is revoked. The program has to ask you again.'

test('names that others chose are shown as text', async () => {
  const bad = '"><script>alert(1)</script><b a="'
  const [first] = LINKED.links as [LinkedToUser['links'][number]]
  account = {
    ...LINKED,
    gateway: bad,
    user: { name: bad, email: bad },
    links: [
      {
        ...first,
        id: bad,
        name: bad,
        redirectUris: ['https://exämple.com/cb?a="><script>alert(2)</script>'],
        scopes: [bad],
        providers: [{ id: bad, host: bad, isLinked: true }],
      },
    ],
    token: bad,
  }
  await page.goto(`${origin}/links`)
  assert.is(await page.$('script'), null)
  assert.is(await page.$('main form b[a]'), null)
  assert.is(await evaluate("document.querySelector('button[name=revoke]').value"), bad)
  assert.match(await evaluate("document.querySelector('button[name=revoke]').ariaLabel"), `Revoke ${bad}`)
  assert.match(await text(), 'xn--exmple-cua.com')
})

test('says when there is nothing, when there may be more, and which client is no longer known', async () => {
  account = { ...LINKED, links: [], user: {} }
  await page.goto(`${origin}/links`)
  assert.match(await text(), 'No program may act for you here.')
  assert.is(await page.$('details'), null)
  account = { ...LINKED, links: [], hasUnlisted: true }
  await page.goto(`${origin}/links`)
  assert.match(await text(), 'Revoke everything')
  const [first] = LINKED.links as [LinkedToUser['links'][number]]
  account = { ...LINKED, isCut: true, links: [{ ...first, name: undefined, redirectUris: [] }] }
  await page.goto(`${origin}/links`)
  assert.match(await text(), 'Others come into the list once they are used.')
  assert.match(await text(), 'A program It is not known here any more.')
})

test('is shown in no frame', async () => {
  await page.goto(`${origin}/frame`)
  const [inner] = page.mainFrame().childFrames()
  assert.is(inner?.url(), 'chrome-error://chromewebdata/')
})

test('text has enough contrast in both colour schemes', async () => {
  await page.setJavaScriptEnabled(true)
  for (const value of ['light', 'dark']) {
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }])
    for (const path of ['/links', '/signed-out']) {
      await page.goto(origin + path)
      assert.equal(JSON.parse(await evaluate(`JSON.stringify((${faint})())`)), [], `${value} ${path}`)
    }
  }
})

test('fits every window size', async () => {
  for (const [path, options] of [
    ['/links', {}],
    ['/links', { width: 380, height: 1600, dark: true }],
    ['/signed-out', {}],
    ['/signed-out', { width: 380, dark: true }],
  ] as const) {
    const { console: messages, dom } = await openPage(origin + path, { ...options, browser })
    assert.is(messages, '')
    assert.match(dom, '<h1>')
  }
  await page.setViewport({ width: 320, height: 800 })
  await page.goto(`${origin}/links`)
  assert.is(await evaluate('document.documentElement.scrollWidth <= innerWidth'), 'true')
})

/** Runs in the page: finds texts with a contrast below 4.5 (WCAG 2.2, 1.4.3). */
const faint = `() => {
  const parts = (color) => color.match(/[\\d.]+/g).map(Number)
  const behind = (node) => {
    for (let at = node; at !== null; at = at.parentElement) {
      const [r, g, b, a = 1] = parts(getComputedStyle(at).backgroundColor)
      if (a > 0) return [r, g, b]
    }
    return [255, 255, 255]
  }
  const light = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  return [...document.querySelectorAll('main *, footer')].flatMap((node) => {
    if (![...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim() !== '')) return []
    const [one, other] = [light(parts(getComputedStyle(node).color).slice(0, 3)), light(behind(node))]
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05)
    return contrast < 4.5 ? [node.tagName + ' ' + node.textContent.slice(0, 30) + ' ' + contrast.toFixed(2)] : []
  })
}`

test.run()
