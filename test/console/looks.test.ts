import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { Browser, BrowserContext, Page } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { routes } from '../../console/endpoint/routes.ts'
import { helpPages } from '../../console/pages/help.ts'
import { CONSOLE_STYLE } from '../../console/pages/style.ts'
import { COLOUR_RULES, findViolations, LOOKS } from '../support/accessibility.ts'
import { startBrowser } from '../support/browser.ts'
import { object } from '../support/operator/standalone-run.ts'
import { startPodConsole } from './in-pod.ts'
import { gateway, group, OpenConsole, server } from './support.ts'

const root = join(import.meta.dirname, '../..')

const manifests = [
  group,
  gateway('tools'),
  server('clock'),
  object(
    'MCPServer',
    'broken',
    '  annotations: {portico.dev/local-command: "exit 3"}\nspec:\n  image: x/y:1.0.0\n  transport: streamable-http\n  groupRef: {name: all}\n  oidcConfigRef: {name: corp, audience: x}\n',
  ),
  object('MCPServer', 'Odd_Name', 'spec: {}\n'),
  ...['registry', 'catalog'].map((name) => readFileSync(join(root, `samples/quickstart/${name}.yaml`), 'utf8')),
].join('---\n')

const VALUES: Readonly<Record<string, string>> = {
  ns: 'default',
  short: 'vmcp',
  name: 'tools',
  tool: 'clock_convert_time',
  registry: 'public',
  namespace: 'com.notion',
  server: 'mcp',
}
const fillPath = (path: string, values: Readonly<Record<string, string>>): string =>
  path.replace(/:(\w+)/g, (_, name: string) => {
    assert.ok(values[name] !== undefined, `a value for ${name} in ${path}`)
    return values[name] as string
  })
/** Every page of the console, including those of other objects and of errors. */
const ALL = [
  ...Object.keys(routes).flatMap((path) =>
    path === '/help/:page' ? Object.keys(helpPages).map((page) => `/help/${page}`) : [fillPath(path, VALUES)],
  ),
  '/workloads?kind=all&q=none',
  '/ns/default/mcpserver/broken',
  '/ns/default/mcpserver/broken/tools',
  '/ns/default/mcpreg/catalog',
  '/ns/default/mcpreg/catalog/connect',
  '/nothing',
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
/** The tests share a browser. Each test opens its own context and closes it. */
let context: BrowserContext | undefined
test.after.each(async () => {
  await context?.close()
  context = undefined
})

/** Opens the first page of the console in a browser that is logged in. */
async function freshPage(): Promise<Page> {
  context = await browser.createBrowserContext()
  const page = await context.newPage()
  await page.goto(await one.link())
  return page
}

/** No animation is running when the page is inspected. */
const STILL = { name: 'prefers-reduced-motion', value: 'reduce' }
/** Finds navigation links beyond the edge of their bar, which readers would not notice. */
const HIDDEN =
  "[...document.querySelectorAll('nav ul, .tabs')].filter((one) => one.scrollWidth > one.clientWidth).length"

test('every page can be used by everybody in each colour scheme, and none is wider than a small screen or one at 200 %', async () => {
  const page = await freshPage()
  const found: string[] = []
  // Violations of the content security policy are console messages.
  page.on('console', (message) => found.push(message.text()))
  page.on('pageerror', (error) => found.push(String(error)))
  page.on('request', (request) => {
    // Chromium draws the icon of a date field from its own `data:` URL.
    if (/^https?:/.test(request.url()) && !request.url().startsWith(`${one.url}/`)) found.push(request.url())
  })
  for (const path of ALL) {
    await page.setViewport({ width: 1280, height: 900 })
    await page.goto(one.url + path)
    for (const [at, [look, feature]] of LOOKS.entries()) {
      await page.emulateMediaFeatures([feature, STILL])
      const rules = at === 0 ? undefined : COLOUR_RULES
      found.push(...(await findViolations(page, rules)).map((violation) => `${path} in ${look}: ${violation}`))
    }
    for (const width of [360, 640]) {
      await page.setViewport({ width, height: 800 })
      assert.is(await page.evaluate('document.documentElement.scrollWidth'), width, `${path} at ${width}`)
      assert.is(await page.evaluate(HIDDEN), 0, `links of ${path} at ${width}`)
    }
  }
  assert.equal(
    found.filter((line) => !line.startsWith('Failed to load resource')),
    [],
  )
})

test('the login of a pod can be used by everybody', async () => {
  const pod = await startPodConsole('http://127.0.0.1:9')
  try {
    const page = await freshPage()
    for (const [at, [look, feature]] of LOOKS.entries()) {
      const rules = at === 0 ? undefined : COLOUR_RULES
      await page.emulateMediaFeatures([feature])
      await page.setViewport({ width: 360, height: 800 })
      await page.goto(`${pod.url}/workloads?q=a`)
      assert.match(page.url(), '/login?to=')
      assert.equal(await findViolations(page, rules), [], look)
      await page.type('[name=token]', 'this is no token')
      await Promise.all([page.waitForNavigation(), page.click('form.fields button')])
      assert.ok(await page.$('.note.bad'), look)
      assert.equal(await findViolations(page, rules), [], look)
      assert.is(await page.evaluate('document.documentElement.scrollWidth'), 360, look)
    }
  } finally {
    await pod.close()
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
  await page.select('select[name="kind"]', 'VirtualMCPServer')
  await Promise.all([page.waitForNavigation(), page.click('form.filter button')])
  const rows = await page.$$eval('tbody tr', (found) =>
    found.map((row) => (row as unknown as { textContent: string }).textContent),
  )
  assert.is(rows.length, 1)
  assert.match(rows[0] ?? '', 'tools')
  await page.goto(`${one.url}/workloads`)
  await page.select('select[name="sort"]', 'name')
  await Promise.all([page.waitForNavigation(), page.click('form.filter button')])
  const names = await page.$$eval('tbody th', (found) => found.map((cell) => cell.textContent))
  assert.ok(names.length >= 4, names.join())
  assert.equal(names, names.toSorted())
})

test('script and style are small', () => {
  const script = readFileSync(join(root, 'console/browser/console.js'))
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

test('a refresh keeps focus, selection and scroll position', async () => {
  const page = await freshPage()
  await page.setViewport({ width: 1280, height: 300 })
  await page.goto(`${one.url}/ns/default/vmcp/tools`)
  await page.focus('main nav a[href$="/connect"]')
  await page.evaluate(`getSelection().selectAllChildren(document.querySelector('main h1')); scrollTo(0, 150)`)
  await page.waitForResponse((answer) => answer.url() === `${one.url}/ns/default/vmcp/tools`, { timeout: 60_000 })
  const state = await page.evaluate('[document.activeElement.pathname, String(getSelection()), scrollY]')
  assert.equal(state, ['/ns/default/vmcp/tools/connect', 'tools', 150])
})

test.run()
