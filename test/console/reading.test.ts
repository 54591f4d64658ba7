/**
 * Checks the text of the read-only pages, over a gateway whose backend comes and goes, and over the objects of
 * samples/login.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, Page } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseAllDocuments } from 'yaml'
import { mapFacts } from '../../console/facts/map.ts'
import { type Branch, buildTree } from '../../console/facts/tree.ts'
import { formatKey } from '../../console/places/object-id.ts'
import { fillWorld, type KubernetesObject } from '../../operator/model/index.ts'
import { startBrowser } from '../support/browser.ts'
import { eventually } from '../support/eventually.ts'
import { object } from '../support/operator/standalone-run.ts'
import { OK_RESULT, type RawServer, answer as rpcAnswer, startRawServer, tool } from '../support/servers/raw-server.ts'
import { gateway, group, OpenConsole } from './support.ts'

const FREQUENT =
  '  telemetryConfigRef: {name: shared}\n  config: {operational: {failureHandling: {healthCheckInterval: 2s, healthCheckTimeout: 1s, unhealthyThreshold: 1}}}\n'

let backend: RawServer
let one: OpenConsole
let browser: Browser
let page: Page

const backendAt = (port?: number) =>
  startRawServer({
    era: 'modern',
    tools: [tool('echo')],
    call: (request) => rpcAnswer(request, OK_RESULT),
    ...(port !== undefined && { port }),
  })

test.before(async () => {
  backend = await backendAt()
  const manifests = [
    group,
    gateway('tools', FREQUENT),
    gateway('more', FREQUENT),
    object('MCPTelemetryConfig', 'shared', 'spec: {openTelemetry: {enabled: false}}\n'),
    object(
      'MCPServerEntry',
      'far',
      `spec: {groupRef: {name: all}, remoteUrl: "${backend.url}", allowPrivateEndpoint: true, transport: streamable-http}\n`,
    ),
  ]
  one = await OpenConsole.start(manifests.join('---\n'))
  await one.open()
  browser = await startBrowser()
  page = await browser.newPage()
  await page.goto(await one.link())
})
test.after(async () => {
  await browser?.close()
  await one?.[Symbol.asyncDispose]()
  await backend?.close()
})

type Fields = Readonly<Record<string, unknown>>

test('a backend that answers again is shown as healthy', async () => {
  const admin = one.portico.reports.at(-1)?.endpoints.find(({ name }) => name === 'tools')?.admin
  const readBackend = async (): Promise<Fields> => {
    const { backends } = (await (await fetch(`${admin}/status`)).json()) as { backends: Fields[] }
    return backends[0] as Fields
  }
  const readSeen = async (): Promise<Fields> => (await one.json('/ns/default/vmcp/tools')).facts.backendsSeen[0]
  const readState = async () => (await one.json('/ns/default/mcpentry/far')).facts.state
  await eventually('it is healthy', async () => (await readBackend())['health'] === 'healthy')
  await backend.close()
  await eventually('the console reports the problem', async () => (await readSeen())['state'] === 'ill')
  assert.is.not((await readSeen())['error'], null)
  // The page of the server repeats what the gateways report about it.
  await eventually('its own page reports it, too', async () => (await readState()) === 'ill')
  backend = await backendAt(backend.port)
  await eventually('it is healthy again', async () => (await readBackend())['health'] === 'healthy')
  assert.is.not((await readBackend())['lastError'], null)
  await eventually('the console reports it', async () => (await readSeen())['state'] === 'well')
  assert.equal([(await readSeen())['error'], (await readSeen())['since']], [null, null])
  await eventually('its own page says so, too', async () => (await readState()) === 'well')
  await eventually('nothing is wrong', async () => (await one.json('/')).facts.subjects.length === 0)
  assert.not.match(await one.text('/ns/default/vmcp/tools'), 'ECONNREFUSED')
})

/** Returns the objects of samples/login. */
function login() {
  const folder = join(import.meta.dirname, '../../samples/login')
  const objects = readdirSync(folder)
    .filter((file) => file.endsWith('.yaml'))
    .flatMap((file) => parseAllDocuments(readFileSync(join(folder, file), 'utf8')))
    .map((document) => document.toJS() as KubernetesObject)
    .map((one) => ({ ...one, metadata: { namespace: 'default', ...one.metadata } }))
  return fillWorld({ objects }).objects
}

test('the map of samples/login has every reference, and nothing else', () => {
  const objects = login()
  const { boxes, edges } = mapFacts(objects, new Map(), { ns: '', outside: true })
  const key = (kind: string, name: string) => formatKey({ kind, namespace: 'default', name })
  const leads = [
    [key('MCPGroup', 'accounts'), key('MCPServerEntry', 'home')],
    [key('MCPGroup', 'accounts'), key('MCPServerEntry', 'work')],
    [key('MCPServerEntry', 'home'), key('MCPExternalAuthConfig', 'token-of-home')],
    [key('MCPServerEntry', 'work'), key('MCPExternalAuthConfig', 'token-of-work')],
    [key('VirtualMCPServer', 'accounts'), key('MCPGroup', 'accounts')],
    [key('VirtualMCPServer', 'accounts'), key('MCPOIDCConfig', 'own')],
  ]
  assert.equal(edges.map(({ from, to }) => [from, to]).sort(), leads)
  assert.equal(
    boxes.map((box) => box.key).sort(),
    [...new Set([...leads.flat(), key('MCPServer', 'providers')])].sort(),
  )
  // The gateway's own map shows everything that the command prints about it.
  const gatewayOf = objects.get('VirtualMCPServer', 'default', 'accounts') as KubernetesObject
  const inTree = ({ object: id, branches }: Branch): string[] => [
    ...(id === undefined ? [] : [formatKey(id)]),
    ...branches.flatMap(inTree),
  ]
  const center = { kind: 'VirtualMCPServer', namespace: 'default', name: 'accounts' }
  const near = new Set(mapFacts(objects, new Map(), { ns: '', outside: false, center }).boxes.map((box) => box.key))
  const ids = inTree(buildTree(objects, gatewayOf, new Map()))
  assert.is(ids.length, 4)
  for (const id of ids) assert.ok(near.has(id), id)
  assert.not(near.has(key('MCPServer', 'providers')))
})

const readKeys = (selector: string): Promise<string[]> =>
  page.$$eval(selector, (found) =>
    found.map((one) => (one as unknown as { dataset: { key: string } }).dataset.key).sort(),
  )

test('an object beyond the bound of boxes is not drawn as a missing one', () => {
  const make = (kind: string, name: string, spec: object) => ({
    apiVersion: 'portico.dev/v1beta1',
    kind,
    metadata: { name, namespace: 'a' },
    spec,
  })
  const servers = Array.from({ length: 600 }, (_, index) =>
    make('MCPServer', `server-${index}`, { telemetryConfigRef: { name: index === 0 ? 'gone' : 'otel' } }),
  )
  const { objects } = fillWorld({ objects: [...servers, make('MCPTelemetryConfig', 'otel', {})] })
  const { boxes, folded } = mapFacts(objects, new Map(), { ns: 'a', outside: false })
  assert.equal([boxes.length, folded], [501, 101])
  assert.equal(
    boxes.flatMap(({ state, name }) => (state === 'missing' ? name : [])),
    ['gone'],
  )
})

test('the state of an object stands on each of its pages', async () => {
  for (const [path, parts] of [
    [
      '/ns/default/vmcp/tools',
      ['', '/tools', '/tools/far_echo', '/access', '/map', '/changes', '/usage', '/connect', '/yaml', '/log'],
    ],
    ['/ns/default/mcpg/all', ['', '/map', '/yaml']],
  ] as const)
    for (const part of parts) {
      assert.is((await one.json(path + part)).facts.state, 'well', part)
      assert.match(
        await one.text(path + part),
        /<h1>\w+<\/h1><span class="tag quiet">\w+<\/span><span class="state well">/,
        part,
      )
    }
})

test('gateways that share a group and a configuration are drawn with one box for each of these', async () => {
  await page.goto(`${one.url}/map`)
  assert.equal(await readKeys('svg .box'), [
    'MCPGroup/default/all',
    'MCPServerEntry/default/far',
    'MCPTelemetryConfig/default/shared',
    'VirtualMCPServer/default/more',
    'VirtualMCPServer/default/tools',
  ])
  const edges = await readKeys('svg .edge')
  for (const to of ['MCPGroup/default/all', 'MCPTelemetryConfig/default/shared'])
    assert.is(edges.filter((edge) => edge.endsWith(` ${to}`)).length, 2, edges.join())
})

test('the list below the map says the same as the map', async () => {
  const boxes = await readKeys('svg .box')
  const edges = await readKeys('svg .edge')
  assert.equal(await readKeys('.table tbody tr'), boxes)
  const rows = (await page.$$eval('.table tbody tr', (found) =>
    found.map((row) => {
      const { dataset, querySelector } = row as unknown as {
        dataset: { key: string }
        querySelector: (selector: string) => { textContent: string }
      }
      return [dataset.key, querySelector.call(row, '[data-label="Leads to"]').textContent] as const
    }),
  )) as readonly (readonly [string, string])[]
  const listed = rows.flatMap(([from, cell]) => (cell === '–' ? [] : cell.split(', ').map((to) => `${from} ${to}`)))
  assert.equal(listed.sort(), edges.map((edge) => edge.replace(/ \w+\/default\//, ' ')).sort())
  // A narrow screen shows only the list.
  await page.setViewport({ width: 360, height: 800 })
  assert.is(
    await page.$eval('.map', (map) => (map as unknown as { checkVisibility(): boolean }).checkVisibility()),
    false,
  )
  assert.is((await page.$$('.table tbody tr')).length, boxes.length)
  await page.setViewport({ width: 1280, height: 800 })
})

test('a box of the map is reachable by keyboard, has a name, and opens its page', async () => {
  await page.goto(`${one.url}/map`)
  const key = 'MCPServerEntry/default/far'
  const readFocus = () => page.evaluate('document.activeElement.dataset?.key ?? ""') as Promise<string>
  await page.focus('.map')
  for (let step = 0; step < 10 && (await readFocus()) !== key; step++) await page.keyboard.press('Tab')
  assert.is(await readFocus(), key)
  const snapshot = await page.accessibility.snapshot({ interestingOnly: true })
  assert.match(JSON.stringify(snapshot), 'remote server default/far: well')
  const outline = (await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')) as string
  assert.is.not(outline, 'none')
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
  assert.is(new URL(page.url()).pathname, '/ns/default/mcpentry/far')
})

test.run()
