import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ApiServer } from '../../../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../../../operator/cluster/kubernetes/kube-config.ts'
import { Reflector, Semaphore } from '../../../../operator/runtime/watch/reflector.ts'
import { Watches } from '../../../../operator/runtime/watch/watches.ts'
import { eventually } from '../../../support/eventually.ts'
import { temporaryFolder } from '../../../support/folder.ts'
import { freePort } from '../../../support/network/free-port.ts'

const kubeconfig = (port: number) => `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:${port}", insecure-skip-tls-verify: true}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
users: [{name: u, user: {token: t}}]
`

test('an unreachable server is logged once, however often it is tried', async () => {
  using folder = temporaryFolder({ kubeconfig: kubeconfig(await freePort()) })
  const lines: { level: number; msg: string; failures: number }[] = []
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const reflector = new Reflector({
    api: new ApiServer(loadKubeConfig(`${folder.path}/kubeconfig`), 'test'),
    resource: { group: '', version: 'v1', plural: 'configmaps', kind: 'ConfigMap' },
    namespace: 'default',
    pages: new Semaphore(1),
    log,
    store: { put: () => undefined, remove: () => undefined, replace: () => undefined },
  })
  reflector.start()
  await eventually('four attempts', () => reflector.metrics.failures >= 4)
  await reflector.stop()
  const failed = lines.filter(({ msg }) => msg === 'watch failed')
  assert.ok(failed.length >= 4)
  assert.equal(
    failed.filter(({ level }) => level >= pino.levels.values['warn']!).map(({ failures }) => failures),
    [1],
  )
})

test('an idle watch is restarted at its version, and that is no failure', async () => {
  const versions: (string | null)[] = []
  const server = createServer(({ url = '' }, response) => {
    const query = new URL(url, 'http://localhost').searchParams
    if (!query.has('watch')) return void response.end(JSON.stringify({ metadata: { resourceVersion: '7' }, items: [] }))
    versions.push(query.get('resourceVersion'))
    response.flushHeaders()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  using folder = temporaryFolder({ kubeconfig: kubeconfig((server.address() as AddressInfo).port) })
  const lines: { msg: string }[] = []
  const reflector = new Reflector({
    api: new ApiServer(loadKubeConfig(`${folder.path}/kubeconfig`), 'test'),
    resource: { group: '', version: 'v1', plural: 'configmaps', kind: 'ConfigMap' },
    namespace: 'default',
    pages: new Semaphore(1),
    log: pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line)) }),
    store: { put: () => undefined, remove: () => undefined, replace: () => undefined },
    idleLimit: 2_000,
  })
  try {
    reflector.start()
    await eventually('three watches', () => versions.length >= 3)
  } finally {
    await reflector.stop()
    server.closeAllConnections()
    server.close()
  }
  assert.equal([...new Set(versions)], ['7'])
  assert.is(reflector.metrics.failures, 0)
  assert.is(reflector.metrics.lists, 1)
  assert.equal(lines, [])
})

test('objects of a resource that the API lacks are dropped once that lasts, and nothing waits for it', async () => {
  const missing = { kind: 'Status', code: 404, reason: 'NotFound', message: 'the server could not find it' }
  let isThere = true
  const server = createServer(({ url = '' }, response) => {
    const isWatch = new URL(url, 'http://localhost').searchParams.has('watch')
    if (isThere && !isWatch) {
      isThere = false
      const items = [{ metadata: { name: 'a', namespace: 'default' } }]
      return void response.end(JSON.stringify({ metadata: { resourceVersion: '7' }, items }))
    }
    response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify(missing))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  using folder = temporaryFolder({ kubeconfig: kubeconfig((server.address() as AddressInfo).port) })
  const contents: number[] = []
  const options = {
    api: new ApiServer(loadKubeConfig(`${folder.path}/kubeconfig`), 'test'),
    resource: { group: '', version: 'v1', plural: 'configmaps', kind: 'ConfigMap' },
    namespace: 'default',
    pages: new Semaphore(1),
    log: pino({ level: 'silent' }),
    store: {
      put: () => undefined,
      remove: () => undefined,
      replace: (objects: readonly unknown[]) => void contents.push(objects.length),
    },
  }
  const known = new Reflector(options)
  const unknown = new Reflector(options)
  const { now } = Date
  try {
    known.start()
    await eventually('it fails', () => known.isAbsent && known.metrics.failures >= 2)
    assert.equal(contents, [1])
    Date.now = () => now() + 11_000
    await eventually('it is accepted', () => contents.length >= 2)
    assert.is(contents[1], 0)
    unknown.start()
    await unknown.synced
    assert.ok(unknown.isAbsent)
  } finally {
    Date.now = now
    await Promise.all([known.stop(), unknown.stop()])
    server.closeAllConnections()
    server.close()
  }
})

test('reflectors that start together read their pages in turns', async () => {
  let listing = 0
  let most = 0
  const server = createServer(({ url = '' }, response) => {
    const query = new URL(url, 'http://localhost').searchParams
    if (query.has('watch')) return void response.flushHeaders()
    most = Math.max(most, ++listing)
    const page = Number(query.get('continue') ?? 0)
    const metadata = { resourceVersion: '7', ...(page < 2 && { continue: String(page + 1) }) }
    setTimeout(() => {
      listing--
      response.end(JSON.stringify({ metadata, items: [{ metadata: { name: `page-${page}`, namespace: 'default' } }] }))
    }, 20)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  using folder = temporaryFolder({ kubeconfig: kubeconfig((server.address() as AddressInfo).port) })
  const names: string[][] = []
  const watches = new Watches({
    api: new ApiServer(loadKubeConfig(`${folder.path}/kubeconfig`), 'test'),
    namespaces: ['a', 'b', 'c', 'd', 'e', 'f'],
    settings: {},
    log: pino({ level: 'silent' }),
  })
  watches.add({
    resource: { group: '', version: 'v1', plural: 'configmaps', kind: 'ConfigMap' },
    createStore: () => ({
      put: () => undefined,
      remove: () => undefined,
      // A long list is stored in steps.
      *replace(objects) {
        const read: string[] = []
        for (const { metadata } of objects) {
          read.push(metadata.name)
          yield
        }
        names.push(read)
      },
    }),
  })
  try {
    watches.start()
    await watches.synced()
    assert.equal(names, Array(6).fill(['page-0', 'page-1', 'page-2']))
    assert.is(most, 2)
  } finally {
    await watches.stop()
    server.closeAllConnections()
    server.close()
  }
})

test.run()
