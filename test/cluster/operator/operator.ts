import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { defaultImage as OWN_IMAGE } from '../../../cli/package-info.ts'
import type { LiveObject } from '../../support/operator/live-object.ts'
import { newCluster } from '../support/cluster.ts'
import { gateway, group, manifest, proxy, server, telemetry } from '../support/manifests.ts'
import { eventually, OPERATOR_USER } from '../support/operator-process.ts'
import { waitUntilStill } from '../support/stands-still.ts'

const cluster = newCluster()
const { apply, condition, exists, kubectl, read } = cluster

const referrers = (name: string) => read('mcpotel', name).status?.referencingWorkloads

/** Returns a function that returns the operator's writes since this call, without Leases and Events. */
function recordWrites() {
  const before = cluster.plane.writes().length
  return () =>
    cluster.plane
      .writes()
      .slice(before)
      .filter(({ user, resource }) => user === OPERATOR_USER && resource !== 'leases' && resource !== 'events')
      .map(
        ({ verb, resource, subresource, name }) => `${verb} ${resource}${subresource ? `/${subresource}` : ''} ${name}`,
      )
}

/** Returns the operator's Events, optionally only those with one reason. */
const listEvents = (reason?: string) =>
  cluster
    .list('events')
    .filter((event) => (event.reportingComponent ?? event.reportingController) === 'portico.dev/operator')
    .filter((event) => reason === undefined || event.reason === reason)

const waitUntilQuiet = (since = recordWrites()) => waitUntilStill(() => since().length)

test.before(async () => {
  await cluster.install({ auditReadsOf: [OPERATOR_USER] })
  cluster.mergePatch('namespace', 'default', {
    metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } },
  })
  await cluster.startOperator()
})

test.after(() => cluster.stop())

test('manifests become Deployments, Services and ConfigMaps, with status', async () => {
  apply(group(), telemetry('main'))
  await eventually(() => read('mcpotel', 'main').status?.configHash, 'the config is reconciled')
  apply(server('everything', 'main'), proxy('remote', 'main'), gateway('front', 'main'))
  for (const [kind, name] of [
    ['deployment', 'front-vmcp'],
    ['service', 'vmcp-front'],
    ['configmap', 'front-vmcp-config'],
    ['deployment', 'everything-mcp'],
    ['service', 'mcp-everything'],
    ['deployment', 'remote-mcprp'],
    ['service', 'mcprp-remote'],
  ] as const) {
    await eventually(() => exists(kind, name), `${kind} ${name}`)
  }
  const [owner] = read('deployment', 'front-vmcp').metadata.ownerReferences
  assert.is(owner.kind, 'VirtualMCPServer')
  const { containers } = read('deployment', 'front-vmcp').spec.template.spec
  assert.equal([...new Set(containers.map(({ image }) => image))], [OWN_IMAGE], 'without --image it is ours')
  await eventually(() => condition('vmcp', 'front', 'Valid')?.status === 'True', 'the gateway is valid')
})

test('each child takes one write and each status one, without a read before', async () => {
  await waitUntilQuiet()
  const ofIt = cluster.plane
    .requests()
    .filter(({ user, name }) => user === OPERATOR_USER && /^(mcprp-remote|remote(-.*)?)$/.test(name))
    .map(({ verb, resource, subresource }) => `${verb} ${resource}${subresource ? `/${subresource}` : ''}`)
  const children = ['configmaps', 'deployments', 'networkpolicies', 'services'].map((kind) => `patch ${kind}`)
  assert.equal(
    ofIt.filter((request) => !request.endsWith('/status')).sort(),
    children,
    'one write a child, and no more',
  )
  const requests = cluster.plane
    .requests()
    .filter(({ user, verb, resource }) => user === OPERATOR_USER && resource === 'namespaces' && verb === 'get')
  assert.equal(requests, [], 'namespaces are watched')
  // The Deployment's controller reports its pods a moment later, which may cause another status write.
  assert.ok(ofIt.length <= children.length + 2, ofIt.join(', '))
})

test('if objects are applied together, the status of their group and config is written once', async () => {
  const attempt = async (name: string) => {
    const since = recordWrites()
    const members = ['a', 'b', 'c', 'd'].map((letter) => {
      const member = proxy(`${name}-${letter}`, name)
      member.spec['groupRef'] = { name }
      return member
    })
    apply(group(name), telemetry(name), ...members)
    await eventually(() => referrers(name)?.length === members.length, 'the config knows all of them')
    await eventually(
      () => read('mcpgroup', name).status?.remoteProxyCount === members.length,
      'the group knows all of them',
    )
    await waitUntilQuiet(since)
    const patches = since().filter((write) => /^patch mcp(groups|telemetryconfigs)\/status/.test(write))
    await cluster.removeAndWait(
      'mcprp',
      members.map(({ metadata }) => metadata.name),
    )
    for (const kind of ['mcpgroup', 'mcpotel']) await cluster.removeAndWait(kind, [name])
    assert.equal(patches.sort(), [`patch mcpgroups/status ${name}`, `patch mcptelemetryconfigs/status ${name}`])
    return true
  }
  // On a busy machine one of the objects may arrive too late to be reconciled together with the others.
  let attempts = 0
  await eventually(() => attempt(`together-${attempts++}`), 'one status write each', 300_000)
})

test('pods pass Pod Security “restricted”: the ReplicaSet may create them', async () => {
  const pods = await eventually(() => {
    const items = cluster.list('pods')
    return items.length >= 3 && items
  }, 'pods of three workloads')
  assert.ok(pods.every((pod) => pod.metadata.labels['app.kubernetes.io/managed-by'] === 'portico'))
})

test('kubectl get mcpotel shows its columns', async () => {
  await eventually(() => referrers('main')?.length === 3, 'three referrers')
  const table = kubectl(['get', 'mcpotel'])
  for (const column of ['NAME', 'ENDPOINT', 'READY', 'TRACING', 'METRICS', 'USERS', 'AGE'])
    assert.match(table, column, table)
  assert.match(table, /main .* 3 /, table)
})

test('referencingWorkloads follows each kind that is created, moved and deleted', async () => {
  apply(telemetry('other'))
  const everyone = [
    { kind: 'MCPRemoteProxy', name: 'remote' },
    { kind: 'MCPServer', name: 'everything' },
    { kind: 'VirtualMCPServer', name: 'front' },
  ]
  assert.equal(referrers('main'), everyone)
  const makers = { MCPRemoteProxy: proxy, MCPServer: server, VirtualMCPServer: gateway }
  for (const { kind, name } of everyone) {
    apply(makers[kind as keyof typeof makers](name, 'other'))
    await eventually(
      () => referrers('other')?.some((one) => one.kind === kind && one.name === name),
      `${kind} moved to other`,
    )
    await eventually(() => !referrers('main')?.some((one) => one.kind === kind), `${kind} left main`)
  }
  assert.equal(referrers('other'), everyone)
  cluster.remove('mcprp', 'remote')
  await eventually(() => referrers('other').length === 2, 'a deleted workload is gone from the list')
  assert.equal(referrers('other'), everyone.slice(1))
})

test('a deleted config stays while it is in use, and goes once nobody refers to it', async () => {
  cluster.remove('mcpotel', 'other')
  const blocked = await eventually(() => condition('mcpotel', 'other', 'DeletionBlocked'), 'DeletionBlocked')
  assert.match(blocked.message, 'MCPServer "everything"')
  assert.match(blocked.message, 'VirtualMCPServer "front"')
  apply(server('everything'), gateway('front'))
  await eventually(() => !exists('mcpotel', 'other'), 'the config is deleted')
})

test('a second apply changes no child, and an idle operator writes nothing', async () => {
  await waitUntilQuiet()
  const versions = () =>
    cluster
      .list('deployments,services,configmaps,networkpolicies')
      .map(
        ({ kind, metadata }) =>
          `${kind}/${metadata.name}=${metadata.generation}/${JSON.stringify(metadata.annotations)}`,
      )
      .join('\n')
  // The garbage collector removes the children of the deleted proxy in its own time.
  await eventually(() => !/remote/.test(versions()), 'the children of the deleted proxy are collected')
  const before = versions()
  const since = recordWrites()
  apply(server('everything'), gateway('front'))
  await delay(3000)
  assert.equal(since(), [])
  assert.is(versions(), before)
})

test('a changed spec takes one write for each changed child and at most one for each status', async () => {
  await waitUntilQuiet()
  const since = recordWrites()
  const changed = gateway('front')
  changed.spec['config'] = { aggregation: { tools: [{ workload: 'everything', filter: ['echo'] }] } }
  apply(changed)
  await eventually(
    () => read('configmap', 'front-vmcp-config').data['gateway.yaml']?.includes('echo'),
    'the configuration follows',
  )
  await waitUntilQuiet()
  const writes = since().filter((write) => !write.startsWith('patch pods '))
  assert.is(writes.filter((write) => write.startsWith('patch configmaps')).length, 1, writes.join('\n'))
  assert.is(writes.filter((write) => write.includes('deployments')).length, 0, writes.join('\n'))
  assert.ok(writes.filter((write) => write === 'patch virtualmcpservers/status front').length <= 1, writes.join('\n'))
  assert.ok(writes.length <= 2, writes.join('\n'))
})

test('a deleted child is recreated, and a manual edit is reverted', async () => {
  await cluster.removeAndWait('service', ['vmcp-front'])
  await eventually(() => exists('service', 'vmcp-front'), 'the Service comes back')
  kubectl(['set', 'image', 'deployment/front-vmcp', 'vmcp=other:1'])
  await eventually(
    () =>
      read('deployment', 'front-vmcp').spec.template.spec.containers.find((one) => one.name === 'vmcp')?.image ===
      OWN_IMAGE,
    'the image is put back',
  )
  cluster.mergePatch('service', 'vmcp-front', { metadata: { labels: { 'app.kubernetes.io/managed-by': 'me' } } })
  await eventually(
    () => read('service', 'vmcp-front').metadata.labels['app.kubernetes.io/managed-by'] === 'portico',
    'a label of ours is put back, though the watch no longer selects the object',
  )
})

const scale = (replicas: number) =>
  cluster.patch('deployment', 'front-vmcp', { spec: { replicas } }, { subresource: 'scale' })

test('labels, annotations, restarts and the scale that others set are left alone', async () => {
  const metadataOfOthers = { labels: { team: 'platform' }, annotations: { 'example.com/note': 'kept' } }
  cluster.mergePatch('deployment', 'front-vmcp', { metadata: metadataOfOthers })
  kubectl(['rollout', 'restart', 'deployment/front-vmcp'])
  scale(3)
  await waitUntilQuiet()
  const touched = gateway('front')
  touched.spec['config'] = { aggregation: { tools: [{ workload: 'everything', filter: ['add'] }] } }
  apply(touched)
  await eventually(
    () => read('configmap', 'front-vmcp-config').data['gateway.yaml']?.includes('- add'),
    'the operator has worked since',
  )
  await waitUntilQuiet()
  const { metadata, spec } = read('deployment', 'front-vmcp')
  assert.is(metadata.labels.team, 'platform')
  assert.is(metadata.annotations['example.com/note'], 'kept')
  assert.ok(spec.template.metadata.annotations['kubectl.kubernetes.io/restartedAt'])
  assert.is(spec.replicas, 3)
})

test('replicas in the spec are enforced; once the field is removed the number stays as it is', async () => {
  const scaled = gateway('front')
  scaled.spec['replicas'] = 2
  apply(scaled)
  await eventually(() => read('deployment', 'front-vmcp').spec.replicas === 2, 'two replicas')
  scale(5)
  await eventually(() => read('deployment', 'front-vmcp').spec.replicas === 2, 'put back to two')
  apply(gateway('front'))
  await waitUntilQuiet()
  assert.is(read('deployment', 'front-vmcp').spec.replicas, 2)
  scale(4)
  await waitUntilQuiet()
  assert.is(read('deployment', 'front-vmcp').spec.replicas, 4)
})

test('an object of somebody else with the name of a child is left alone', async () => {
  cluster.create({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'taken-vmcp-config' },
    data: { mine: 'yes' },
  })
  apply(gateway('taken'))
  const ready = await eventually(() => {
    const found = condition('vmcp', 'taken', 'Ready')
    return found?.reason === 'NameTaken' && found
  }, 'NameTaken')
  assert.match(ready.message, 'ConfigMap "taken-vmcp-config" belongs to somebody else')
  await eventually(() => listEvents('NameTaken').length > 0, 'the lasting problem has an event')
  assert.equal(read('configmap', 'taken-vmcp-config').data, { mine: 'yes' })
  cluster.remove('configmap', 'taken-vmcp-config')
  await eventually(
    () => condition('vmcp', 'taken', 'Ready')?.reason !== 'NameTaken',
    'it is taken up once the name is free',
    180_000,
  )
})

test('a deleted workload takes its children with it', async () => {
  cluster.remove('vmcp', 'taken')
  await eventually(
    () => !exists('deployment', 'taken-vmcp') && !exists('configmap', 'taken-vmcp-config'),
    'garbage collection',
  )
})

test('a workload that is deleted and recreated gets new children', async () => {
  await cluster.removeAndWait('vmcp', ['front'])
  apply(gateway('front'))
  const uid = read('vmcp', 'front').metadata.uid
  await eventually(
    () => read('deployment', 'front-vmcp').metadata.ownerReferences[0].uid === uid,
    'the new owner’s child',
  )
})

const createSecret = (name: string, stringData: object) =>
  cluster.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name }, stringData })

test('a missing Secret is a condition, and its creation is noticed without reading other Secrets', async () => {
  createSecret('unrelated', { a: 'b' })
  const withSecret = proxy('secretive')
  withSecret.spec['headerForward'] = {
    addHeadersFromSecret: [{ headerName: 'X-Key', valueSecretRef: { name: 'key', key: 'value' } }],
  }
  apply(withSecret)
  const missing = await eventually(() => condition('mcprp', 'secretive', 'Ready')?.message, 'a message')
  assert.match(missing, 'Secret "key" is missing')
  createSecret('key', { other: '1' })
  await eventually(
    () => condition('mcprp', 'secretive', 'Ready')?.message.includes('no key "value"'),
    'the missing key is named',
  )
  await eventually(() => listEvents('SecretKeyNotFound').length > 0, 'the lasting problem has an event')
  cluster.remove('secret', 'key')
  createSecret('key', { value: 'hidden-text' })
  await eventually(() => exists('deployment', 'secretive-mcprp'), 'the children are rendered')
  const everything = JSON.stringify(cluster.list('configmaps,deployments,mcprp,events'))
  assert.not.match(everything, 'hidden-text')
  assert.not.match(cluster.operator.log(), 'hidden-text')
})

test('a change of an MCPTelemetryConfig reaches every configuration, and no pod is replaced', async () => {
  const workloads = ['moved-mcp', 'moved-mcprp', 'moved-vmcp']
  apply(telemetry('moving'), server('moved', 'moving'), proxy('moved', 'moving'), gateway('moved', 'moving'))
  const all = ['MCPRemoteProxy/moved', 'MCPServer/moved', 'VirtualMCPServer/moved']
  const listReferrers = () => (referrers('moving') ?? []).map((one) => `${one.kind}/${one.name}`).sort()
  await eventually(() => `${listReferrers()}` === `${all}`, 'all three are named')
  for (const name of workloads) await eventually(() => exists('deployment', name), `deployment ${name}`)
  const templates = () => workloads.map((name) => read('deployment', name).spec.template)
  const before = { templates: templates(), hash: read('mcpotel', 'moving').status.configHash }

  cluster.mergePatch('mcpotel', 'moving', { spec: { prometheus: { enabled: true } } })
  const serves = (name: string) =>
    /prometheus:\s*enabled: true/.test(Object.values(read('configmap', name).data).join())
  for (const name of workloads) await eventually(() => serves(`${name}-config`), `${name} has the new configuration`)
  assert.equal(templates(), before.templates)
  await eventually(() => read('mcpotel', 'moving').status.configHash !== before.hash, 'the hash has changed')
  assert.equal(listReferrers(), all)
  for (const kind of ['mcprp', 'vmcp']) cluster.remove(kind, 'moved')
  await eventually(() => `${listReferrers()}` === 'MCPServer/moved', 'one workload is left')
  await cluster.removeAndWait('mcpserver', ['moved'])
  await cluster.removeAndWait('mcpotel', ['moving'])
})

test('the API server refuses an invalid manifest with the text of the rule', () => {
  const wrong = manifest('VirtualMCPServer', 'wrong', { groupRef: { name: 'tools' }, incomingAuth: { type: 'oidc' } })
  assert.throws(() => apply(wrong), /oidcConfigRef/)
})

test('each transition has one event', async () => {
  assert.is(listEvents('NameTaken').length, 1)
  assert.is(listEvents('SecretKeyNotFound').length, 1)
  assert.ok(
    listEvents('Progressing').every((event) => event.type === 'Normal'),
    'pods on their way are no reason to warn',
  )
  const isNew = ({ regarding, involvedObject = regarding }: LiveObject) => involvedObject?.name === 'remote'
  assert.equal(listEvents().filter(isNew), [], 'that a new workload is on its way is no event')
})

test('health and metrics show the state of the operator', async () => {
  const metrics = await (await fetch(cluster.operator.metrics)).text()
  assert.match(metrics, 'portico_operator_leading 1')
  assert.match(metrics, /portico_operator_objects\{kind="VirtualMCPServer",ready="[A-Za-z]+"\} 1/)
  assert.match(metrics, /portico_operator_reconciles_total\{kind="MCPServer",result="ok"\} [1-9]/)
  assert.match(metrics, /^process_cpu_seconds_total [0-9.]+$/m)
  assert.match(metrics, /^process_resident_memory_bytes [1-9][0-9]{6,}$/m)
  assert.is((await fetch(`${cluster.operator.health}/healthz`)).status, 200)
})

test('SIGTERM ends the operator within the grace period of 20 s', async () => {
  const started = performance.now()
  await cluster.operator.stop()
  assert.ok(performance.now() - started < 20_000)
})

test.run()
