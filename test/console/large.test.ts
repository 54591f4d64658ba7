/** Tests the console over 2,000 workloads in 40 namespaces (scenario 67): pages stay small and bounded. */
import { gzipSync } from 'node:zlib'
import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { consoleApp } from '../../console/endpoint/app.ts'
import { machinePlaces } from '../../console/places/machine.ts'
import type { Places } from '../../console/places/place.ts'
import type { Sessions } from '../../console/session/sessions.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'

const GROUP = 'portico.dev'
const NAMESPACES = 40
const ORIGIN = 'http://127.0.0.1:4480'

const condition = (isWell: boolean) => ({
  ...{ type: 'Ready', status: isWell ? 'True' : 'False', reason: isWell ? 'PodsReady' : 'ImagePullBackOff' },
  ...{
    message: isWell ? '1 of 1 pods are ready' : 'the image can’t be pulled',
    lastTransitionTime: '2026-11-20T00:00:00Z',
  },
})

/** Returns objects: every tenth is a gateway with its group, every hundredth has a problem. */
function buildObjects(count: number): readonly KubernetesObject[] {
  return Array.from({ length: count }, (_, index) => {
    const namespace = `team-${index % NAMESPACES}`
    const isGateway = index % 400 < NAMESPACES
    const kind = isGateway ? 'VirtualMCPServer' : 'MCPServer'
    const group = `group-${namespace}`
    const name = `${isGateway ? 'gateway' : 'server'}-${index}`
    const spec = isGateway ? { groupRef: { name: group } } : { image: 'x/y:1.0.0', groupRef: { name: group } }
    const status = { conditions: [condition(index % 100 !== 7)] }
    return { apiVersion: `${GROUP}/v1beta1`, kind, metadata: { name, namespace, uid: String(index) }, spec, status }
  }).concat(
    Array.from({ length: NAMESPACES }, (_, index) => {
      const [namespace, name] = [`team-${index}`, `group-team-${index}`]
      const status = { conditions: [condition(true)] }
      return {
        apiVersion: `${GROUP}/v1beta1`,
        kind: 'MCPGroup',
        metadata: { name, namespace, uid: name },
        spec: {} as never,
        status,
      }
    }),
  ) as unknown as readonly KubernetesObject[]
}

/** Returns a function that requests pages of a console over that many workloads. */
function consoleOver(count: number, isCut = false) {
  const objects = buildObjects(count).map((object) => ({ object, file: 'all.yaml' }))
  const all = machinePlaces({ objects: () => objects, endpoints: () => [], auditLines: () => [] }, 'large')
  const places: Places = { ...all, world: async (viewer) => ({ ...(await all.world(viewer)), cut: isCut }) }
  const session = { id: 's', viewer: { id: 'ada', name: 'ada' }, canLogOut: false }
  const sessions = {
    ...{ isLocal: true, loginPath: undefined, formKey: Buffer.alloc(32), inMemory: 0 },
    find: async () => session,
    routes() {
      // Every viewer is logged in.
    },
  } as unknown as Sessions
  const app = consoleApp({ places, sessions, names: new Set(), origin: ORIGIN, log: pino({ level: 'silent' }) })
  return async (path: string, accept = 'text/html') => {
    const before = performance.now()
    const answer = await app.request(`${ORIGIN}${path}`, { headers: { host: '127.0.0.1:4480', accept } })
    assert.is(answer.status, 200, path)
    const text = await answer.text()
    return { text, ms: performance.now() - before, bytes: gzipSync(text).length }
  }
}

const large = consoleOver(2_000)
const SERVER = '/ns/team-7/mcpserver/server-47'
const PAGES = [
  '/',
  '/workloads',
  '/workloads?cursor=1900',
  '/workloads?q=server-47',
  SERVER,
  '/access',
  '/changes',
  '/usage',
]

test('67: each page of 2,000 workloads is at most 12 kB, and 1.2 times that of 500', async () => {
  const small = consoleOver(500)
  for (const path of PAGES) {
    const { bytes } = await large(path)
    assert.ok(bytes <= 12 * 1024, `${path}: ${bytes} bytes`)
  }
  for (const path of ['/workloads', '/access', '/usage']) {
    const [of2000, of500] = [await large(path), await small(path)]
    assert.ok(of2000.bytes <= 1.2 * of500.bytes, `${path}: ${of2000.bytes} and ${of500.bytes} bytes`)
  }
})

test('67: the list has pages, the search finds one workload, Home shows the broken ones', async () => {
  const json = async (path: string) => JSON.parse((await large(path, 'application/json')).text).facts
  const first = await json('/workloads')
  assert.equal([first.total, first.rows.length, first.next], [2_000, 100, '100'])
  assert.match((await large('/workloads')).text, /rel="next" href="\/workloads\?sort=state&amp;cursor=100"/)
  const last = await json('/workloads?cursor=1900')
  assert.equal([last.first, last.rows.length, last.next], [1_901, 100, null])
  const found = await json('/workloads?q=server-47')
  assert.is(found.rows[0].name, 'server-47')
  assert.ok(found.rows.length > 1)
  assert.match((await large('/access')).text, '60 of 500 are shown')
  const home = await json('/')
  assert.equal([home.counts.ill, home.subjects.length + home.more], [20, 20])
})

test('67: the map shows at most 500 boxes; the rest is folded by namespace, and each fold opens', async () => {
  const json = async (path: string) => JSON.parse((await large(path, 'application/json')).text).facts
  const map = await json('/map')
  assert.ok(map.boxes.length <= 500, String(map.boxes.length))
  assert.ok(map.folded > 0)
  const fold = map.boxes.find(({ state }: { state: string }) => state === 'folded')
  const opened = await json(fold.href)
  assert.ok(opened.boxes.length > 40)
  assert.is(opened.folded, 0)
})

test('67: the list below a large map has pages', async () => {
  const { boxes } = JSON.parse((await large('/map', 'application/json')).text).facts
  const shown: string[] = []
  let path = '/map?ns='
  for (;;) {
    const { text } = await large(path)
    const rows = [...text.slice(text.indexOf('<tbody')).matchAll(/<tr data-key="([^"]+)"/g)].map(([, key]) =>
      String(key),
    )
    assert.match(text, `${boxes.length} boxes`)
    assert.match(text, `rows ${shown.length + 1}–${shown.length + rows.length}`)
    shown.push(...rows)
    const [, next] = /rel="next" href="([^"]+)"/.exec(text) ?? []
    if (next === undefined) break
    path = next.replaceAll('&amp;', '&')
  }
  assert.equal(
    shown,
    boxes.map(({ key }: { key: string }) => key),
  )
  // A number beyond the last row shows the last page.
  assert.match((await large('/map?cursor=9999999')).text, `–${boxes.length}<`)
})

test('68: a list that was cut is marked as cut, on pages and in JSON', async () => {
  const cut = consoleOver(100, true)
  for (const path of ['/', '/workloads', '/map', SERVER]) {
    assert.match((await cut(path)).text, 'The lists are too long to be read completely', path)
    assert.is(JSON.parse((await cut(path, 'application/json')).text).cut, true, path)
  }
  assert.not.match((await large('/workloads')).text, 'too long to be read')
})

// A measurement for docs/performance.md: MEASURE=1 prints it.
if (process.env['MEASURE'] === '1')
  test('measured', async () => {
    for (const path of [...PAGES, '/map']) {
      const times: number[] = []
      for (let count = 0; count < 20; count++) times.push((await large(path)).ms)
      const { bytes, text } = await large(path)
      const median = times.sort((a, b) => a - b)[10] as number
      console.log(`${path}: ${median.toFixed(1)} ms, ${text.length} bytes, ${bytes} compressed`)
    }
    globalThis.gc?.()
    console.log(`${Math.round(process.memoryUsage().rss / 2 ** 20)} MiB resident`)
  })

test.run()
