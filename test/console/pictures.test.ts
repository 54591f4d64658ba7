/** Checks that the pages contain what the pictures of docs/console.md show. UPDATE_PICTURES=1 takes the pictures again. */
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, Page } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { startBrowser } from '../support/browser.ts'
import { eventually } from '../support/eventually.ts'
import { object } from '../support/operator/standalone-run.ts'
import { group, OpenConsole, server } from './support.ts'

const root = join(import.meta.dirname, '../..')
const docs = readFileSync(join(root, 'docs/console.md'), 'utf8')
const MOST_BYTES = 60 * 1024
const UPDATES = process.env['UPDATE_PICTURES'] === '1'

const POLICIES = JSON.stringify([
  'permit(principal, action, resource);',
  'forbid(principal, action == Action::"call_tool", resource == Tool::"clock_current_time");',
])
const manifests = [
  group,
  object(
    'VirtualMCPServer',
    'tools',
    `spec:\n  groupRef: {name: all}\n  telemetryConfigRef: {name: shared}\n  incomingAuth:\n    type: anonymous\n    authzConfig: {type: inline, inline: {policies: ${POLICIES}}}\n  config: {audit: {enabled: true}, usage: {enabled: true}}\n`,
  ),
  server('clock'),
  object(
    'MCPServer',
    'github',
    '  annotations: {portico.dev/local-command: "exit 3"}\nspec:\n  image: x/y:1.0.0\n  transport: streamable-http\n  groupRef: {name: all}\n  oidcConfigRef: {name: corp, audience: x}\n',
  ),
  object('MCPTelemetryConfig', 'shared', 'spec: {openTelemetry: {enabled: false}}\n'),
  ...['registry', 'catalog'].map((name) => readFileSync(join(root, `samples/quickstart/${name}.yaml`), 'utf8')),
].join('---\n')

interface Picture {
  readonly path: string
  /** Texts on the page. */
  readonly shows: readonly string[]
  /** The size of the picture. */
  readonly size?: readonly [width: number, height: number]
  act?(page: Page): Promise<unknown>
}

const TOOLS = '/ns/default/vmcp/tools'
const submit = (page: Page, selector: string) => Promise.all([page.waitForNavigation(), page.click(selector)])

const PICTURES: Readonly<Record<string, Picture>> = {
  home: { path: '/', shows: ['What is wrong', 'ReferenceNotFound', 'What to do:', 'What is served', 'Try a tool'] },
  workload: { path: TOOLS, size: [1000, 400], shows: ['Servers', 'healthy', 'What belongs to it', 'Conditions'] },
  map: { path: '/map', size: [1290, 430], shows: ['As a list', 'shared', 'missing'] },
  access: {
    path: `${TOOLS}/access`,
    shows: ['DENIED', 'stops here', 'The policies that decided'],
    async act(page) {
      await page.type('[name=tool]', 'clock_current_time')
      await submit(page, 'form.fields button')
      await page.evaluate('document.querySelector("form.fields button").scrollIntoView()')
    },
  },
  try: {
    path: `${TOOLS}/tools/clock_convert_time`,
    shows: ['answered', 'Asia/Tokyo'],
    async act(page) {
      await page.type('[name="arg.time"]', '2026-11-20T15:00')
      await page.type('[name="arg.from"]', 'Europe/Lisbon')
      await page.type('[name="arg.to"]', '["Asia/Tokyo"]')
      await page.click('form[data-try] button')
      await page.waitForSelector('#result')
      await page.evaluate('document.querySelector("#result").scrollIntoView({block: "center"})')
    },
  },
  connect: { path: `${TOOLS}/connect`, size: [1290, 500], shows: ['VS Code', 'Claude Code', 'Cursor', 'Copy'] },
}

let one: OpenConsole
let browser: Browser
let page: Page

test.before(async () => {
  one = await OpenConsole.start(manifests)
  // Grayscale antialiasing: with subpixel colours a picture is half as large again.
  browser = await startBrowser('--disable-lcd-text')
  page = await browser.newPage()
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }])
  await page.goto(await one.link())
  const cookies = await browser.cookies()
  one.cookie = cookies.map(({ name, value }) => `${name}=${value}`).join('; ')
  await eventually('the clock is healthy', async () => {
    const { facts } = await one.json(TOOLS)
    return facts.backendsSeen.some(
      ({ name, health }: Record<string, string>) => name === 'clock' && health === 'healthy',
    )
  })
})
test.after(async () => {
  await browser?.close()
  await one?.[Symbol.asyncDispose]()
})

// The part of the page below the picture counts too.
const readPage = () => page.evaluate('document.querySelector("main").innerText') as Promise<string>

for (const [name, { path, shows, size = [1000, 430], act }] of Object.entries(PICTURES))
  test(`the picture ${name} is there, and the page has what it shows`, async () => {
    await page.setViewport({ width: size[0], height: size[1] })
    await page.goto(one.url + path)
    await act?.(page)
    const text = (await readPage()).replaceAll('\u00a0', ' ')
    for (const part of shows) assert.ok(text.includes(part), `${part} in ${text}`)
    const file = join(root, 'docs/pictures', `console-${name}.png`) as `${string}.png`
    if (UPDATES) {
      mkdirSync(join(root, 'docs/pictures'), { recursive: true })
      // The folder of the test means nothing to a reader.
      await page.evaluate(`for (const part of document.querySelectorAll('h1, .where b, dd'))
        if (part.textContent === ${JSON.stringify(join(one.folder.path, 'all.yaml'))}) part.textContent = 'team-a/all.yaml'`)
      await page.screenshot({ path: file })
    }
    assert.ok(existsSync(file), file)
    assert.ok(statSync(file).size < MOST_BYTES, `${statSync(file).size} bytes`)
    assert.match(docs, new RegExp(`!\\[[^\\]]{20,}\\]\\(pictures/console-${name}\\.png\\)`))
  })

test('pages without content name the next step: what counts calls, what pins, what may be asked', async () => {
  const { facts } = await one.json('/usage')
  const findSum = (name: string) => facts.counted.find((sum: { name: string }) => sum.name === name)
  assert.equal([findSum('tools').isCounted, findSum('clock').isCounted], [true, false])
  assert.match((await one.json('/ns/default/mcpserver/clock/usage')).facts.manifest, 'usage: {enabled: true}')
  const { facts: changes } = await one.json('/changes')
  assert.equal([changes.approved, changes.changed], [0, []])
  assert.ok(changes.unchecked > 0)
  assert.match(await one.text('/changes'), 'portico pin ')
  assert.ok((await one.json(`${TOOLS}/access`)).facts.tools.includes('clock_convert_time'))
  assert.match(await one.text('/nothing'), 'href="/help"')
})

test('a workload links to each server behind it, in its table and in its tree', async () => {
  await page.goto(one.url + TOOLS)
  const links = (await page.$$eval('main .table a, main .tree a', (found) =>
    found.map((link) => (link as unknown as { pathname: string }).pathname),
  )) as readonly string[]
  // No gateway serves github while its reference is missing.
  for (const [name, times] of [
    ['clock', 2],
    ['github', 1],
  ] as const)
    assert.is(links.filter((link) => link === `/ns/default/mcpserver/${name}`).length, times, `${name} in ${links}`)
})

test.run()
