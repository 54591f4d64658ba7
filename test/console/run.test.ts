import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Browser } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { startBrowser } from '../support/browser.ts'
import { eventually } from '../support/eventually.ts'
import { object } from '../support/operator/standalone-run.ts'
import { clock, gateway, group, OpenConsole, server } from './support.ts'

const HOSTILE = `<img src=x onerror=window.pwned=1></script>{{7*7}}\u202eevil\u200b`
const manifests = [
  group,
  gateway('tools', ''),
  server('clock'),
  object(
    'MCPServer',
    'broken',
    `  annotations: {portico.dev/local-command: "exit 3"}\nspec:\n  image: x/y:1.0.0\n  transport: streamable-http\n  groupRef: {name: all}\n  oidcConfigRef: {name: corp, audience: x}\n`,
  ),
  object('MCPGroup', 'odd', `spec: {description: ${JSON.stringify(HOSTILE)}}\n`),
].join('---\n')

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

test('only the link opens the console; it works once, and then another one is printed', async () => {
  for (const path of ['/', '/workloads', '/ns/default/vmcp/tools', '/nothing', '/openapi.json'])
    assert.is((await one.get(path)).status, 403, path)
  const { open } = one.line.console
  assert.is((await fetch(`${open}x`, { redirect: 'manual' })).status, 403)
  assert.is((await fetch(`${one.url}/login`, { redirect: 'manual' })).status, 403)
  const previewed = await fetch(open, { method: 'HEAD', redirect: 'manual' })
  assert.is(previewed.status, 405)
  assert.is(previewed.headers.get('set-cookie'), null)
  await one.open()
  assert.match(one.cookie, /^portico-console-\d+=[\w-]{43}$/)
  assert.is((await fetch(open, { redirect: 'manual' })).status, 403)
  assert.is((await one.get('/')).status, 200)
  const changed = `${one.cookie.slice(0, -1)}${one.cookie.endsWith('A') ? 'B' : 'A'}`
  assert.is((await one.get('/', { cookie: changed })).status, 403)
})

test('other hosts, other origins, other ports of this machine and frames are refused', async () => {
  const { hostname, port } = new URL(one.url)
  const elsewhere = `http://${hostname}:${Number(port) + 1}`
  const refused: readonly Record<string, string>[] = [
    { origin: elsewhere },
    { origin: 'null' },
    { origin: 'https://evil.example' },
    { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
    { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
    { 'sec-fetch-site': 'same-origin', 'sec-fetch-dest': 'iframe' },
  ]
  for (const headers of refused) assert.is((await rawGet(one, headers)).status, 403, JSON.stringify(headers))
  assert.is((await rawGet(one, { host: 'evil.example' })).status, 403)
  assert.is((await rawGet(one, {})).status, 200)
  const post = await fetch(`${one.url}/workloads`, { method: 'POST', headers: { cookie: one.cookie } })
  assert.is(post.status, 403)
  const unsigned = { cookie: one.cookie, origin: one.url, 'content-type': 'application/x-www-form-urlencoded' }
  assert.is((await fetch(`${one.url}/workloads`, { method: 'POST', headers: unsigned, body: 'form=x' })).status, 403)
})

/** Sends a GET with headers that fetch does not allow. */
async function rawGet({ url, cookie }: OpenConsole, headers: Readonly<Record<string, string>>) {
  const { request } = await import('undici')
  const answer = await request(`${url}/`, { headers: { cookie, ...headers } })
  await answer.body.dump()
  return { status: answer.statusCode }
}

test('every answer has a strict content security policy and forbids caching', async () => {
  for (const path of ['/', '/nothing']) {
    const { headers } = await one.get(path)
    const policy = headers.get('content-security-policy') ?? ''
    for (const part of ["default-src 'none'", "script-src 'self'", "trusted-types 'none'", "frame-ancestors 'none'"])
      assert.ok(policy.includes(part), part)
    assert.is(headers.get('cache-control'), 'no-store')
    assert.is(headers.get('cross-origin-opener-policy'), 'same-origin')
  }
})

test('Home names unhealthy objects, the cause and the next step, with a link to the help', async () => {
  const { facts, asOf, cut, notReadable } = await one.json('/')
  assert.equal([cut, notReadable], [false, []])
  assert.ok(Date.parse(asOf) > 0)
  const broken = facts.subjects.find(({ name }: { name: string }) => name === 'broken')
  assert.is(broken.state, 'ill')
  assert.is(broken.troubles[0].reason, 'ReferenceNotFound')
  assert.match(broken.troubles[0].message, 'MCPOIDCConfig')
  assert.is(broken.troubles[0].help, '/help/conditions#ReferenceNotFound')
  const page = await one.text('/')
  assert.match(page, broken.troubles[0].next)
  assert.match(page, 'href="/help/conditions#ReferenceNotFound"')
  const { meaning } = broken.troubles[0]
  assert.match(await one.text('/ns/default/mcpserver/broken'), meaning)
  const help = await one.text('/help/conditions')
  assert.match(help, /<span id="ReferenceNotFound">/)
  assert.match(help, meaning)
})

test('the page of a workload shows the facts of its JSON, and every object has a page', async () => {
  const { facts } = await one.json('/ns/default/vmcp/tools')
  assert.equal(
    facts.backendsSeen.map(({ name }: { name: string }) => name),
    ['clock'],
  )
  const page = await one.text('/ns/default/vmcp/tools')
  for (const { type, reason } of facts.conditions) assert.ok(page.includes(type) && page.includes(reason), type)
  for (const { name, health } of facts.backendsSeen) assert.ok(page.includes(name) && page.includes(health), name)
  const { facts: list } = await one.json('/workloads')
  const html = await one.text('/workloads')
  assert.is(list.rows.length, 3)
  for (const { href, kind, namespace, name, state, backends, troubles } of list.rows) {
    assert.is((await one.get(href)).status, 200, href)
    const row = html.split(`data-key="${kind}/${namespace}/${name}"`)[1]?.split('</tr>')[0] ?? ''
    const cells = [...row.matchAll(/<t[dh][^>]*>(.*?)<\/t[dh]>/g)].map(([, cell = '']) =>
      cell.replaceAll(/<[^>]*>/g, ''),
    )
    assert.equal(cells, [
      name,
      ({ ill: '✕ill', attention: '!check', well: '✓well', unknown: '?not known' } as Record<string, string>)[state],
      namespace,
      ({ VirtualMCPServer: 'gateway', MCPServer: 'server' } as Record<string, string>)[kind],
      backends === 0 ? '–' : String(backends),
      troubles[0]?.reason ?? '–',
    ])
  }
  const gone = await one.get('/ns/default/vmcp/gone')
  assert.is(gone.status, 404)
  assert.match(await gone.text(), 'href="/workloads?ns=default"')
  assert.equal(await (await one.get('/ns/default/vmcp/__proto__', { accept: 'application/json' })).json(), {
    error: 'not_found',
    message: 'There is no such object, or you may not read it.',
  })
})

test('the list is filtered, sorted and searched by its query; odd values count as absent', async () => {
  const names = async (query: string) =>
    (await one.json(`/workloads?${query}`)).facts.rows.map(({ name }: { name: string }) => name)
  assert.equal(await names('sort=name'), ['broken', 'clock', 'tools'])
  assert.equal(await names('state=ill'), ['broken'])
  assert.equal(await names('kind=VirtualMCPServer'), ['tools'])
  assert.equal(await names('q=ReferenceNot'), ['broken'])
  assert.equal(await names('ns=elsewhere'), [])
  assert.is((await names('state=__proto__&kind=constructor&sort=toString&cursor=-1')).length, 3)
})

test('an unchanged page is answered with 304', async () => {
  const first = await one.get('/workloads', { accept: 'application/json' })
  const etag = first.headers.get('etag') ?? ''
  const again = await one.get('/workloads', { accept: 'application/json', 'if-none-match': etag })
  assert.is(again.status, 304)
})

test('in a browser there is no error, hostile text does not run, and no other host is contacted', async () => {
  await using context = await browser.createBrowserContext()
  const page = await context.newPage()
  const messages: string[] = []
  const requested: string[] = []
  page.on('console', (message) => messages.push(message.text()))
  page.on('pageerror', (error) => messages.push(String(error)))
  page.on('request', (request) => requested.push(request.url()))
  await page.goto(await one.link())
  for (const path of ['/', '/workloads', '/ns/default/vmcp/tools', '/ns/default/mcpg/odd'])
    for (const width of [1280, 360]) {
      await page.setViewport({ width, height: 800 })
      await page.goto(one.url + path)
      const isWide = await page.evaluate('document.documentElement.scrollWidth > document.documentElement.clientWidth')
      assert.is(isWide, false, `${path} at ${width}`)
    }
  assert.is(await page.evaluate('window.pwned'), undefined)
  assert.equal(messages, [])
  assert.equal(
    requested.filter((url) => !url.startsWith(one.url)),
    [],
  )
})

test('Home shows a server that ends, and drops it once it is back, without a reload', async () => {
  await using context = await browser.createBrowserContext()
  const page = await context.newPage()
  await page.goto(await one.link())
  await page.evaluate('window.stays = true')
  const file = join(one.folder.path, 'all.yaml')
  const text = async () => (await page.evaluate('document.querySelector("main").innerText')) as string
  writeFileSync(file, manifests.replace(JSON.stringify(clock), '"exit 7"'))
  await eventually(
    'the page names it',
    async () => /default\/clock/.test(await text()) && /exited with code 7/.test(await text()),
  )
  await eventually('and the gateway that loses its tools', async () =>
    /1 gateway loses (?:\d+ tools|its tools): tools/.test(await text()),
  )
  writeFileSync(file, manifests)
  await eventually('it is gone from the page', async () => !/default\/clock/.test(await text()))
  assert.is(await page.evaluate('window.stays'), true)
})

test('Home names a refused manifest with its line, and what ran keeps running', async () => {
  const files = async () => (await one.json('/')).facts.files
  assert.equal(await files(), [])
  const extra = one.folder.write(
    'all.yaml',
    manifests.replace('spec: {}', `spec: {colour: ${JSON.stringify(HOSTILE)}}`),
  )
  await eventually('it is named', async () => (await files()).length > 0)
  const [found] = await files()
  assert.equal([found.object, found.reason, found.severity], ['group default/all', 'SchemaInvalid', 'error'])
  assert.match(found.message, `${extra}:5: /spec/colour`)
  const page = await one.text('/')
  assert.match(page, 'Manifests to repair')
  assert.not.match(page, 'are well.')
  assert.match(page, '/help/conditions#SchemaInvalid')
  assert.is((await one.get('/ns/default/mcpg/all')).status, 200)
  writeFileSync(extra, '{')
  await eventually('a file without an object is named', async () => (await files())[0]?.object === extra)
  writeFileSync(extra, manifests)
  await eventually('nothing is to be repaired', async () => (await files()).length === 0)
})

test('each number on Home leads to a list with that many rows', async () => {
  const { counts } = (await one.json('/')).facts
  const page = await one.text('/')
  for (const [state, count] of Object.entries(counts).filter(([, number]) => number !== 0)) {
    assert.match(page, `href="/workloads?kind=all&amp;state=${state}"`)
    assert.is((await one.json(`/workloads?kind=all&state=${state}`)).facts.total, count, state)
  }
  const { rows } = (await one.json('/workloads?kind=all&q=odd')).facts
  assert.equal(
    rows.map(({ kind }: { kind: string }) => kind),
    ['MCPGroup'],
  )
})

test('a taken console port is an error, and `off` serves no console', async () => {
  const taken = createServer()
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  const { port } = taken.address() as AddressInfo
  const { RunningPortico } = await import('../support/operator/running-portico.ts')
  const refused = new RunningPortico([
    join(one.folder.path, 'all.yaml'),
    '--state',
    join(one.folder.path, 's2'),
    '--console',
    `127.0.0.1:${port}`,
  ])
  await eventually('it ends', () => refused.exitCode !== null)
  assert.is(refused.exitCode, 1)
  assert.match(refused.errors, `port ${port} is taken`)
  taken.close()
  const alone = one.folder.write('alone/server.yaml', `${server('alone')}---\n${group}`)
  const off = new RunningPortico([alone, '--state', join(one.folder.path, 's3'), '--console', 'off'])
  const report = await off.report('it serves', ({ endpoints }) => endpoints.length > 0)
  assert.is(
    report.endpoints.some(({ kind }) => kind === 'Console'),
    false,
  )
  await off.stop()
})

test.run()
