/**
 * Tests how the console helps to connect clients: links, shell commands, catalog entries that start programs, and which
 * workloads get a manifest.
 */
import { spawnSync } from 'node:child_process'
import type { Browser, Page } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { buildSetups, type ClientSetup } from '../../console/facts/connect.ts'
import { startBrowser } from '../support/browser.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { object } from '../support/operator/standalone-run.ts'
import { server as listed, registryFile } from '../support/registry/registry.ts'
import { gateway, group, OpenConsole, server } from './support.ts'

const HOSTILE = `<img src=x onerror=window.pwned=1></script>{{7*7}}javascript:alert(1)\u202eevil\u200b`
const TOOLS = '/ns/default/vmcp/tools'
const folder = temporaryFolder()

let one: OpenConsole
let browser: Browser
let page: Page

/** The catalog's entries: one starts a program, one has hostile text. */
const entries = [
  {
    ...listed('com.example/program'),
    packages: [
      {
        registryType: 'npm',
        identifier: 'evil-package',
        version: '1.0.0',
        runtimeHint: 'npx',
        transport: { type: 'stdio' },
      },
    ],
  },
  {
    ...listed('com.example/odd', '1.0.0', { title: HOSTILE.slice(0, 100) }),
    description: HOSTILE.slice(0, 100),
    remotes: [{ type: 'streamable-http', url: "https://mcp.example.com/a'b?c=$(touch x)&d=`id`" }],
  },
]

test.before(async () => {
  const path = folder.write('catalog.json', registryFile(entries))
  const marks: Readonly<Record<string, string>> = {
    argo: '  annotations: {argocd.argoproj.io/tracking-id: "a:portico.dev/MCPGroup:default/argo"}\n',
    flux: '  labels: {kustomize.toolkit.fluxcd.io/name: apps}\n',
    helm: '  labels: {app.kubernetes.io/managed-by: Helm}\n',
  }
  one = await OpenConsole.start(
    [
      group,
      gateway('tools'),
      server('clock'),
      object(
        'MCPRegistry',
        'catalog',
        `spec:\n  sources: [{name: all, file: {path: "${path}"}}]\n  registries: [{name: main, sources: [all]}]\n  auth: {mode: anonymous}\n`,
      ),
      ...Object.entries(marks).map(([name, mark]) => object('MCPGroup', name, `${mark}spec: {}\n`)),
    ].join('---\n'),
  )
  browser = await startBrowser()
  page = await browser.newPage()
  await page.goto(await one.link())
  one.cookie = (await browser.cookies()).map(({ name, value }) => `${name}=${value}`).join('; ')
  await eventually('the catalog is read', async () => (await one.json('/catalog/main')).facts.entries.length === 2)
})
test.after(async () => {
  await browser?.close()
  await one?.[Symbol.asyncDispose]()
  folder[Symbol.dispose]()
})

/** Returns the page's links that open a program on the viewer's machine. */
const programLinks = async (): Promise<readonly string[]> =>
  (await page.$$eval('a[href]', (links) => links.map((link) => link.getAttribute('href') ?? ''))).filter(
    (href) => !/^(?:https?:|[/#?])/.test(href),
  )

test('29: links of clients decode to the name and the URL that are shown', async () => {
  for (const [query, expected] of [
    ['', 'tools'],
    ['?name=my+tools', 'my-tools'],
    ['?name=%3Cimg%3E%26%22x', 'img---x'],
  ] as const) {
    await page.goto(`${one.url}${TOOLS}/connect${query}`)
    const url = await page.$eval('.address code', ({ textContent }) => textContent)
    assert.is(await page.$eval('[name=name]', (input) => input.getAttribute('value')), expected)
    const links = await programLinks()
    assert.is(links.length, 3)
    const [code = '', cursor = '', goose = ''] = links
    assert.match(code, /^vscode:mcp\/install\?/)
    assert.equal(JSON.parse(decodeURIComponent(code.split('?')[1] ?? '')), { name: expected, type: 'http', url })
    const install = new URL(cursor).searchParams
    assert.is(install.get('name'), expected)
    assert.equal(JSON.parse(Buffer.from(install.get('config') ?? '', 'base64').toString()), { url })
    const extension = new URL(goose).searchParams
    assert.equal([extension.get('url'), extension.get('name')], [url, expected])
  }
})

const PROGRAMS = ['code', 'claude', 'codex', 'gemini', 'goose', 'npx', 'curl']

/** Runs a text in a shell without real programs, and returns the words that the shell parsed. */
function words(text: string): readonly string[] {
  const stubs = PROGRAMS.map((name) => `${name}() { printf '%s\\0' ${name} "$@"; }`)
  const { stdout, stderr, status } = spawnSync('sh', ['-eu', '-c', [...stubs, 'TOKEN=t', text].join('\n')], {
    cwd: folder.path,
    encoding: 'utf8',
  })
  assert.equal([status, stderr], [0, ''], text)
  return stdout.split('\0').slice(0, -1)
}

const commandsIn = (setups: readonly ClientSetup[]) => setups.filter(({ hint }) => hint.includes('terminal'))

test('30: names and URLs are quoted as one word for a shell', async () => {
  const { facts } = await one.json(`${TOOLS}/connect?name=${encodeURIComponent(`a b"&'`)}`)
  const odd = "https://mcp.example.com/a'b?c=$(touch pwned)&d=`touch pwned`;touch pwned|x\\"
  for (const [name, url, setups] of [
    ['a-b---', facts.url, facts.setups],
    ['a b"&\'$(touch pwned)', odd, buildSetups('a b"&\'$(touch pwned)', odd)],
    ['x', odd, buildSetups('x', odd, true)],
  ] as readonly [string, string, readonly ClientSetup[]][]) {
    const commands = commandsIn(setups)
    assert.is(commands.length, PROGRAMS.length)
    for (const { client, text } of commands) {
      const args = words(text)
      assert.ok(PROGRAMS.includes(args[0] ?? ''), text)
      if (client === 'VS Code') {
        assert.equal(JSON.parse(args[2] ?? ''), { name, type: 'http', url })
        continue
      }
      assert.is(args.filter((word) => word === url).length, 1, text)
      if (['Claude Code', 'Codex', 'Gemini CLI'].includes(client)) assert.ok(args.includes(name), text)
    }
  }
  const [, ...bearing] = words(buildSetups('x', odd, true).at(-1)?.text ?? '')
  assert.ok(bearing.includes('Authorization: Bearer t'))
  assert.is((await one.json(`${TOOLS}/connect?name=--help`)).facts.clientName, 'help')
})

test('31: an entry that starts a program has its command as text, and no link', async () => {
  await page.goto(`${one.url}/catalog/main/com.example/program`)
  assert.match((await page.evaluate('document.querySelector("main").innerText')) as string, 'npx evil-package')
  assert.equal(await programLinks(), [])
  await page.goto(`${one.url}/catalog/main/com.example/odd`)
  const links = await programLinks()
  assert.is(links.length, 3)
  for (const link of links) assert.not.match(decodeURIComponent(link), /"command"|npx/)
})

test('48: texts of publishers stay text on the pages of a catalog', async () => {
  const messages: string[] = []
  page.on('console', (message) => messages.push(message.text()))
  page.on('pageerror', (error) => messages.push(String(error)))
  for (const path of [
    '/catalog',
    '/catalog/main',
    '/catalog/main/com.example/odd',
    `/catalog?why=${encodeURIComponent(HOSTILE)}`,
  ])
    for (const width of [1280, 360]) {
      await page.setViewport({ width, height: 800 })
      await page.goto(one.url + path)
      assert.is(await page.evaluate('document.documentElement.scrollWidth'), width, `${path} at ${width}`)
    }
  assert.match((await page.evaluate('document.body.innerText')) as string, '⟨U+202E⟩')
  assert.is(await page.evaluate('window.pwned'), undefined)
  assert.equal(messages, [])
})

test('46: the page names the tool that manages an object, and offers nothing to apply', async () => {
  for (const [name, source] of [
    ['argo', 'Argo CD'],
    ['flux', 'Flux'],
    ['helm', 'Helm'],
  ] as const) {
    const path = `/ns/default/mcpg/${name}/yaml`
    assert.is((await one.json(path)).facts.managedBy, source)
    await page.goto(one.url + path)
    assert.match((await page.evaluate('document.querySelector("main").innerText')) as string, source)
    assert.equal(await page.$$eval('main form', (forms) => forms.length), 0)
  }
  assert.is((await one.json('/ns/default/mcpg/all/yaml')).facts.managedBy, null)
})

test.run()
