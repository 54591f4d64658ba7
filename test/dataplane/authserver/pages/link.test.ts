/** Tests the page of a link in Chromium: its text, its targets, and that names stay text. */
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import type { Browser, Page } from 'puppeteer-core'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { type LinkQuestion, linkPage } from '../../../../dataplane/authserver/pages/login-pages.ts'
import { renderPage } from '../../../../dataplane/pages/page.ts'
import { openPage, startBrowser } from '../../../support/browser.ts'

const QUESTION: LinkQuestion = {
  gateway: 'acme-tools',
  account: { name: 'Ada Lovelace', email: 'ada@example.com' },
  provider: 'github',
  hosts: ['login.example.com', 'github.com'],
  action: 'link',
  ticket: 'the-ticket',
  token: 'the-token',
}

const test = suite('link')
const app = new Hono()
let server: ReturnType<typeof serve>
let origin: string
let browser: Browser
let page: Page
let posted: string[] = []
let question = QUESTION

test.before(async () => {
  app.get('/oauth/link', (c) => renderPage(c, linkPage(question)))
  app.post('/oauth/link', async (c) => {
    posted.push(await c.req.text())
    return c.redirect('/elsewhere', 303)
  })
  app.get('/elsewhere', (c) => c.html('<h1>Log in</h1>'))
  server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' })
  await new Promise((resolve) => server.once('listening', resolve))
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  browser = await startBrowser()
})
test.before.each(async () => {
  posted = []
  question = QUESTION
  page = await browser.newPage()
  await page.setJavaScriptEnabled(false)
})
test.after.each(() => page.close())
test.after(async () => {
  await browser?.close()
  server.close()
})

const open = () => page.goto(`${origin}/oauth/link?ticket=the-ticket`)
const text = async () => String(await page.evaluate("document.querySelector('main').innerText")).replace(/\s+/g, ' ')

test('names the account, the provider, and where one logs in', async () => {
  await open()
  const content = await text()
  assert.match(content, 'Link github with your account at acme-tools?')
  assert.match(content, 'Account Ada Lovelace ada@example.com')
  assert.match(content, 'login.example.com, then github.com')
  assert.match(content, 'If somebody else has sent you this link, close the page.')
})

test('continues by keyboard, without scripts', async () => {
  await open()
  const readFocus = async () => String(await page.evaluate('document.activeElement.textContent'))
  for (let tabs = 0; tabs < 5 && (await readFocus()) !== 'Log in'; tabs++) await page.keyboard.press('Tab')
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
  assert.is(page.url(), `${origin}/elsewhere`)
  assert.equal(posted, ['ticket=the-ticket&token=the-token'])
})

test('providers’ facts about people are shown as text, and nothing is invented', async () => {
  question = { ...QUESTION, account: { name: '<script>alert(1)</script><b>x' }, ticket: '"><script>alert(2)</script>' }
  await open()
  assert.is(await page.$('script'), null)
  assert.match(await text(), 'Account <script>alert(1)</script><b>x Is linked')
  question = { ...QUESTION, account: {} }
  await open()
  assert.match(await text(), 'the one that your program uses')
})

test('fits every window size', async () => {
  for (const options of [{}, { width: 380, dark: true }]) {
    const { console: messages, dom } = await openPage(`${origin}/oauth/link`, { ...options, browser })
    assert.is(messages, '')
    assert.match(dom, '<h1>')
  }
})

test.run()
