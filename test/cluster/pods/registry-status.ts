import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import { startGateway, type TestConfig } from '../../support/gateway/gateway.ts'
import {
  registryFile,
  registryFolder,
  runRegistry,
  server,
  type TestRegistry,
} from '../../support/registry/registry.ts'
import { IN_CLUSTER, newCluster } from '../support/cluster.ts'
import { group, manifest } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'
import { givePodAddress, type PodAddress } from '../support/pod-address.ts'
import { waitUntilStill } from '../support/stands-still.ts'

const cluster = newCluster()
const { apply, condition, kubectl, read } = cluster
let registry: TestRegistry
let pod: PodAddress
/** Counts the requests to the pod. */
let requests = 0

const status = () => read('mcpreg', 'catalog').status
const states = () => (status()?.sources ?? []).map(({ name, state }) => `${name} ${state}`).join()
const readSynced = () => condition('mcpreg', 'catalog', 'SourcesSynced')

test.before(async () => {
  await cluster.install()
  const folder = await registryFolder()
  await folder.write('good.json', registryFile([server('com.example/a')]))
  apply(
    manifest('MCPRegistry', 'catalog', {
      sources: ['good', 'late'].map((name) => ({
        name,
        file: { path: `${folder.directory}/${name}.json` },
        // Each answer has another time and count, none of which the operator should report.
        syncPolicy: { interval: '1s' },
      })),
      registries: [{ name: 'main', sources: ['good', 'late'] }],
      auth: { mode: 'anonymous' },
    }),
  )
  // As in a cluster, the operator polls pods at their own addresses.
  await cluster.startOperator([], IN_CLUSTER)

  // As a kubelet would, runs the data plane with the configuration that was rendered for the pod.
  const config = await eventually(() => read('configmap', 'catalog-mcpreg-config').data, 'the configuration')
  await folder.write('config/registry.yaml', Object.values(config)[0] as string)
  registry = await runRegistry(folder)
  pod = await givePodAddress(cluster.plane, 'catalog', 83, () => {
    requests++
    return registry.adminUrl
  })
})

test.after(async () => {
  await cluster.stop()
  await registry?.close()
  pod?.close()
})

test('the status of an MCPRegistry shows the state of each source', async () => {
  await eventually(() => states() === 'good Synced,late Failed', 'both sources')
  const [good, late] = status().sources
  assert.equal([good.servers, good.skills, good.leftOut], [1, 0, 0])
  assert.is(late?.error.code, 'file_missing')
  assert.is(readSynced()?.status, 'False')
  assert.match(readSynced()?.message ?? '', 'late: there is no such file')
  assert.match(kubectl(['get', 'mcpreg', 'catalog']), /SYNCED.*False/s)
})

test('an unchanged registry is polled without a write', async () => {
  await eventually(
    () => cluster.operator.log().includes('configuration is in force'),
    'the operator knows the configuration',
  )
  await waitUntilStill(() => cluster.written().length)
  const [before, asks] = [cluster.written().length, requests]
  await eventually(() => requests >= asks + 2, 'the operator polls the pod twice more')
  assert.equal(cluster.written().slice(before), [])
})

test('a source that recovers takes one status write', async () => {
  await waitUntilStill(() => cluster.written().length)
  const before = cluster.written().length
  const { lastTransitionTime } = status().sources[0]
  await registry.folder.write('late.json', registryFile([server('com.example/b'), { name: 'bad' }]))
  // No synchronous kubectl, which would keep the pod, a part of this process, from answering the operator.
  await eventually(() => cluster.written().length > before, 'the operator writes')
  await waitUntilStill(() => cluster.written().length)
  assert.equal(
    cluster
      .written()
      .slice(before)
      .map(({ verb, resource, subresource }) => `${verb} ${resource}/${subresource}`),
    ['patch mcpregistries/status'],
  )
  await eventually(() => states() === 'good Synced,late Synced', 'the late source is synced')
  assert.is(readSynced()?.status, 'True')
  const [good, late] = status().sources
  assert.equal([late?.servers, late?.leftOut, late?.error], [1, 1, undefined])
  assert.is(good.lastTransitionTime, lastTransitionTime)
})

test('another operator takes over without a write or an event', async () => {
  await waitUntilStill(() => cluster.written().length)
  const before = cluster.written().length
  await cluster.operator.stop()
  await cluster.startOperator([], IN_CLUSTER)
  await eventually(
    () => cluster.operator.log().includes('configuration is in force'),
    'the operator has polled the pod',
  )
  const asks = requests
  await eventually(() => requests >= asks + 1, 'the operator has asked for the sources')
  assert.equal(
    cluster
      .written()
      .slice(before)
      .map(({ verb, resource, subresource }) => `${verb} ${resource}/${subresource}`),
    [],
  )
  assert.is(states(), 'good Synced,late Synced')
})

test('a gateway that uses the registry gets its address and reports its verdict on members', async () => {
  const remoteUrl = (name: string) => `http://127.0.0.1:9/${name}`
  const entry = (name: string) =>
    manifest('MCPServerEntry', name, {
      ...{ groupRef: { name: 'tools' }, remoteUrl: remoteUrl(name), transport: 'streamable-http' },
      allowPrivateEndpoint: true,
    })
  apply(
    group(),
    entry('known'),
    entry('stray'),
    manifest('VirtualMCPServer', 'gated', {
      groupRef: { name: 'tools' },
      incomingAuth: { type: 'anonymous' },
      config: {
        catalogGate: {
          mode: 'enforce',
          registries: [{ name: 'house', registryRef: { name: 'catalog' }, registry: 'main' }],
        },
      },
    }),
  )
  const address = 'http://mcpreg-catalog.default.svc.cluster.local:8080'
  const rendered = await eventually(() => {
    const text = Object.values(read('configmap', 'gated-vmcp-config').data ?? {}).join('\n')
    return text.includes('backend: stray') && text.includes(address) && text
  }, 'the configuration')
  const { catalogGate, backends, incomingAuth } = parse(rendered) as TestConfig
  assert.equal(
    catalogGate?.members?.map(({ backend, uid, url }) => [backend, uid, url]),
    ['known', 'stray'].map((name) => [name, read('mcpserverentry', name).metadata.uid, remoteUrl(name)]),
  )
  // The Service's address leads nowhere here; before the Service exists, nothing is served.
  const buildConfig = (url: string): TestConfig => ({
    ...{ backends, incomingAuth },
    catalogGate: { ...catalogGate, mode: 'enforce', registries: [{ name: 'house', url, registry: 'main' }] },
  })
  const gateway = await startGateway(buildConfig('http://127.0.0.1:9'))
  const gatePod = await givePodAddress(cluster.plane, 'gated', 86, () => gateway.adminUrl)
  const waitForReason = (reason: string) =>
    eventually(() => {
      const seen = condition('vmcp', 'gated', 'CatalogGate')
      return seen?.reason === reason && seen
    }, reason)
  const publish = (file: string, ...names: readonly string[]) =>
    registry.folder.write(
      file,
      registryFile(
        names.map((name) => ({
          ...server(`com.example/${name}`),
          remotes: [{ type: 'streamable-http', url: remoteUrl(name) }],
        })),
      ),
    )
  try {
    assert.is((await waitForReason('CatalogUnavailable')).status, 'False')
    await publish('good.json', 'known')
    const list = `${registry.url}/registry/main/v0.1/servers`
    await eventually(async () => (await (await fetch(list)).text()).includes('com.example/known'), 'the catalog')
    await gateway.configure(buildConfig(registry.url))
    const withheld = await waitForReason('MembersWithheld')
    assert.equal([withheld.status, withheld.message], ['False', '1 not approved: "stray": NotInCatalog'])
    await publish('late.json', 'stray')
    assert.is((await waitForReason('AllApproved')).status, 'True')
  } finally {
    gatePod.close()
    await gateway.close()
  }
})

test.run()
