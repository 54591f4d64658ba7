import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { Browser, BrowserContext, Page } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { CONSOLE_STYLE } from '../../console/pages/style.ts'
import { LOOKS, violations } from '../support/accessibility.ts'
import { startBrowser } from '../support/browser.ts'
import { object } from '../support/operator/standalone-run.ts'
import { gateway, group, OpenConsole, server } from './support.ts'

const manifests = [
  group,
  gateway('tools'),
  server('clock'),
  object(
    'MCPServer',
    'broken',
    '  annotations: {portico.dev/local-command: "exit 3"}\nspec:\n  image: x/y:1.0.0\n  transport: streamable-http\n  groupRef: {name: all}\n  oidcConfigRef: {name: corp, audience: x}\n',
  ),
].join('---\n')

const PAGES = [
  '',
  '/map',
  '/access',
  '/changes',
  '/usage',
  '/connect',
  '/yaml',
  '/log',
  '/tools',
  '/tools/clock_convert_time',
].map((part) => `/ns/default/vmcp/tools${part}`)
const ALL = [
  '/',
  '/workloads',
  '/map',
  '/access',
  '/changes',
  '/usage',
  '/catalog',
  '/help',
  '/help/conditions',
  '/nothing',
  ...PAGES,
]
let one: OpenConsole
let browser: Browser

test.before(async () => {
  one = await OpenConsole.start(manifests)
  browser = await startBrowser()
})
test.after(async () => {
  await browser?.close()
  await one?.[Symbol.asyncDispose]()
})
/** The tests share a browser; each has a context of its own, which ends with it. */
let context: BrowserContext | undefined
test.after.each(async () => {
  await context?.close()
  context = undefined
})

/** Returns a page at the first page of the console, of a browser that was let in. */
async function freshPage(): Promise<Page> {
  context = await browser.createBrowserContext()
  const page = await context.newPage()
  await page.goto(await one.link())
  return page
}

for (const [look, feature] of LOOKS)
  test(`every page can be used by everybody, in ${look}`, async () => {
    const page = await freshPage()
    await page.emulateMediaFeatures([feature])
    await page.setViewport({ width: 1280, height: 900 })
    const found: string[] = []
    for (const path of ALL) {
      await page.goto(one.url + path)
      found.push(...(await violations(page)).map((violation) => `${path} ${violation}`))
    }
    assert.equal(found, [])
  })

test('no page is wider than a small screen, or than a screen at 200 %', async () => {
  const page = await freshPage()
  for (const width of [360, 640])
    for (const path of ALL) {
      await page.setViewport({ width, height: 800 })
      await page.goto(one.url + path)
      assert.is(await page.evaluate('document.documentElement.scrollWidth'), width, `${path} at ${width}`)
    }
})

test('no table is cut off at the widths between', async () => {
  const page = await freshPage()
  for (const path of ['/workloads', '/map', '/access', '/ns/default/vmcp/tools', '/ns/default/vmcp/tools/tools']) {
    await page.goto(one.url + path)
    for (const width of [720, 1000, 1210]) {
      await page.setViewport({ width, height: 800 })
      const cut = "[...document.querySelectorAll('.table')].filter((one) => one.scrollWidth > one.clientWidth).length"
      assert.is(await page.evaluate(cut), 0, `${path} at ${width}`)
    }
  }
})

test('every page works without script', async () => {
  const page = await freshPage()
  await page.setJavaScriptEnabled(false)
  await page.goto(`${one.url}/workloads`)
  await page.select('[name="kind"]', 'VirtualMCPServer')
  await Promise.all([page.waitForNavigation(), page.click('form.filter button')])
  const rows = await page.$$eval('tbody tr', (found) =>
    found.map((row) => (row as unknown as { textContent: string }).textContent),
  )
  assert.is(rows.length, 1)
  assert.match(rows[0] ?? '', 'tools')
})

test('script and style are small', () => {
  const script = readFileSync(join(import.meta.dirname, '../../console/browser/console.js'))
  assert.ok(gzipSync(script).length <= 15 * 1024)
  assert.ok(gzipSync(CONSOLE_STYLE).length <= 8 * 1024)
})

test('the keys go from page to page', async () => {
  const page = await freshPage()
  await page.keyboard.press('g')
  await Promise.all([page.waitForNavigation(), page.keyboard.press('w')])
  assert.is(new URL(page.url()).pathname, '/workloads')
  await page.keyboard.press('j')
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
  assert.match(page.url(), '/ns/default/')
  await page.keyboard.press('/')
  assert.is(await page.evaluate('document.activeElement.name'), 'q')
  await page.keyboard.press('Escape')
  await page.keyboard.press('?')
  assert.is(await page.evaluate('document.querySelector("dialog").open'), true)
})

test('a refresh keeps the focus', async () => {
  const page = await freshPage()
  await page.goto(`${one.url}/ns/default/vmcp/tools`)
  await page.focus('main nav a[href$="/connect"]')
  await page.waitForResponse((answer) => answer.url() === `${one.url}/ns/default/vmcp/tools`, { timeout: 60_000 })
  assert.match((await page.evaluate('document.activeElement.href')) as string, '/connect')
})

test.run()
