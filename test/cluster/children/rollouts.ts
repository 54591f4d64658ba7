/** Rollouts that fail or complete: what the status reports, and which pods keep serving. */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createAuthority } from '../../support/network/certificates.ts'
import type { LiveObject } from '../../support/operator/live-object.ts'
import { group, type Manifest, manifest, namespaceOf } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'
import { newStage } from '../support/stage.ts'

const stage = newStage()

const server = (name: string, spec: object = {}) =>
  manifest('MCPServer', name, { image: 'server:1', transport: 'streamable-http', ...spec })

const container = (name: string, image: string) => ({
  podTemplateSpec: { spec: { containers: [{ name, image }] } },
})

/** Waits until a workload has a pod with this image that is not being deleted, and returns it. */
const podOf = (name: string, image: string): Promise<LiveObject> =>
  eventually(
    () =>
      stage
        .podsWith(`app.kubernetes.io/instance=${name}`)
        .find(
          (pod) => !pod.metadata.deletionTimestamp && JSON.stringify(pod.spec['containers']).includes(`"${image}"`),
        ),
    `a pod of ${name} with ${image}`,
  )

/** Writes a pod's status as a kubelet would. */
function kubeletSays({ metadata }: LiveObject, status: object): void {
  const patch = { status: { phase: 'Running', ...status } }
  stage.plane.patch('pod', metadata.name, patch, { subresource: 'status', type: 'strategic' })
}
const isReady = { conditions: [{ type: 'Ready', status: 'True' }] }
const waitsFor = (reason: string, message: string) => ({
  phase: 'Pending',
  containerStatuses: [
    { name: 'mcp', image: 'x', imageID: '', ready: false, restartCount: 0, state: { waiting: { reason, message } } },
  ],
})

const MOUNTING = [
  ['mounting-pipe', 'stdio'],
  ['mounting-web', 'streamable-http'],
] as const

/** Makes pods wait for a volume, as a kubelet reports it. The operator reads events late, so they are written first. */
async function makeMounting(): Promise<void> {
  for (const [name, transport] of MOUNTING) stage.apply(server(name, { transport }))
  for (const [name] of MOUNTING) {
    const pod = await podOf(name, 'server:1')
    kubeletSays(pod, waitsFor('ContainerCreating', ''))
    // The first event has the cause; the later one, about the wait, says nothing useful.
    for (const [at, reason, message] of [
      ['2026-01-01T00:00:01Z', 'FailedMount', 'MountVolume.SetUp failed for volume "a" : configmap "a" not found'],
      ['2026-01-01T00:00:02Z', 'FailedMount', 'Unable to attach or mount volumes: timed out waiting for the condition'],
      ['2026-01-01T00:00:03Z', 'Unrelated', 'something else'],
    ] as const) {
      const { namespace, uid } = pod.metadata
      stage.plane.create({
        apiVersion: 'v1',
        kind: 'Event',
        metadata: { name: `${name}.${at.replaceAll(/\D/g, '')}`, namespace },
        involvedObject: { apiVersion: 'v1', kind: 'Pod', name: pod.metadata.name, namespace, uid },
        ...{ type: 'Warning', reason, message, firstTimestamp: at, lastTimestamp: at, count: 1 },
      })
    }
  }
}

test.before(async () => {
  await stage.start()
  await makeMounting()
})
test.after(() => stage.stop())

test('while the newest pods do not start, the server is not Ready and says why, and the old pods serve', async () => {
  stage.apply(server('web'))
  const old = await podOf('web', 'server:1')
  await stage.said('MCPServer', 'web', 'Progressing', 'True Progressing: 0 of 1 pods are ready')
  kubeletSays(old, isReady)
  await stage.said('MCPServer', 'web', 'Ready', 'True PodsReady')
  await stage.said('MCPServer', 'web', 'Progressing', /^$/)

  stage.apply(server('web', { image: 'server:2' }))
  kubeletSays(await podOf('web', 'server:2'), waitsFor('ImagePullBackOff', 'no such image'))
  const why = /ImagePullBackOff: 1 of 1 pods are ready, .*: container mcp: no such image/
  await stage.said('MCPServer', 'web', 'Progressing', why)
  await stage.said('MCPServer', 'web', 'Ready', why)
  const { status } = await stage.get('MCPServer', 'web')
  assert.equal([status.phase, status['readyReplicas']], ['Degraded', 1])
  const uids = stage.podsWith('app.kubernetes.io/instance=web').map(({ metadata }) => metadata.uid)
  assert.ok(uids.includes(old.metadata.uid), 'the old pod is there')
  assert.is(status.conditions.find(({ type }) => type === 'Ready')?.status, 'False')

  stage.apply(server('web', { image: 'server:3' }))
  kubeletSays(await podOf('web', 'server:3'), isReady)
  await stage.said('MCPServer', 'web', 'Ready', 'True PodsReady')
})

const others: Readonly<Record<string, (image: string) => Manifest>> = {
  MCPRemoteProxy: (image) =>
    manifest('MCPRemoteProxy', 'far', { remoteUrl: 'https://mcp.example/mcp', ...container('portico', image) }),
  VirtualMCPServer: (image) =>
    manifest('VirtualMCPServer', 'front', {
      groupRef: { name: 'tools' },
      incomingAuth: { type: 'anonymous' },
      ...container('vmcp', image),
    }),
  MCPRegistry: (image) =>
    manifest('MCPRegistry', 'catalog', {
      sources: [{ name: 'own', file: { path: '/srv/registry.json' } }],
      registries: [{ name: 'main', sources: ['own'] }],
      auth: { mode: 'anonymous' },
      ...container('portico', image),
    }),
}
for (const [kind, object] of Object.entries(others))
  test(`a ${kind} whose newest pods do not start is not Ready and says why`, async () => {
    const { name } = object('').metadata
    stage.apply(group(), object('own:1'))
    kubeletSays(await podOf(name, 'own:1'), isReady)
    await stage.said(kind, name, 'Ready', 'True PodsReady')
    stage.apply(object('own:2'))
    kubeletSays(await podOf(name, 'own:2'), waitsFor('ImagePullBackOff', 'no such image'))
    for (const [type, status] of [
      ['Ready', 'False'],
      ['Progressing', 'True'],
      ['Reconciling', 'True'],
    ] as const)
      await stage.said(
        kind,
        name,
        type,
        new RegExp(`^${status} ImagePullBackOff: .* of 1 pods are ready.*: no such image`),
      )
    stage.apply(object('own:3'))
    kubeletSays(await podOf(name, 'own:3'), isReady)
    await stage.said(kind, name, 'Ready', 'True PodsReady')
  })

test('problems of pods of an earlier revision are not reported for the newest', async () => {
  stage.apply(server('mended', { image: 'server:1' }))
  kubeletSays(await podOf('mended', 'server:1'), waitsFor('CrashLoopBackOff', 'exit 1'))
  await stage.said('MCPServer', 'mended', 'Ready', 'False CrashLoopBackOff')
  stage.apply(server('mended', { image: 'server:2' }))
  await podOf('mended', 'server:2')
  await stage.said('MCPServer', 'mended', 'Progressing', /^True Progressing: /)
})

test('a stdio server replaces a pod that does not start when its template changes', async () => {
  const stdio = (image: string, spec: object = {}) => server('pipe', { transport: 'stdio', image, ...spec })
  stage.apply(stdio('server:1'))
  const broken = await podOf('pipe', 'server:1')
  kubeletSays(broken, waitsFor('ImagePullBackOff', 'no such image'))
  await stage.said('MCPServer', 'pipe', 'Progressing', 'True ImagePullBackOff')
  stage.apply(stdio('server:2'))
  const next = await podOf('pipe', 'server:2')
  await stage.said('MCPServer', 'pipe', 'Progressing', /^True Progressing: (?!.*no such image)/)
  // Changes of arguments and volumes replace the pod as well.
  kubeletSays(next, waitsFor('CrashLoopBackOff', 'exit 1'))
  stage.apply(stdio('server:2', { args: ['--right'] }))
  const right = await eventually(
    () =>
      stage
        .podsWith('app.kubernetes.io/instance=pipe')
        .find((pod) => !pod.metadata.deletionTimestamp && JSON.stringify(pod.spec['containers']).includes('--right')),
    'a pod with the argument',
  )
  kubeletSays(right, isReady)
  await stage.said('MCPServer', 'pipe', 'Ready', 'True PodsReady')
})

test('a stdio server whose broken pod has a finalizer of others continues once that is removed', async () => {
  stage.apply(server('stuck', { transport: 'stdio' }))
  const { metadata } = await podOf('stuck', 'server:1')
  stage.plane.mergePatch('pod', metadata.name, { metadata: { finalizers: ['example.com/hold'] } })
  kubeletSays(await podOf('stuck', 'server:1'), waitsFor('ImagePullBackOff', 'no such image'))
  await stage.said('MCPServer', 'stuck', 'Progressing', 'True ImagePullBackOff')
  stage.apply(server('stuck', { transport: 'stdio', image: 'server:2' }))
  await stage.until('Pod', metadata.name, (one) => one.metadata.deletionTimestamp)
  await stage.said('MCPServer', 'stuck', 'Progressing', /^True Progressing: (?!.*no such image)/)
  stage.plane.mergePatch('pod', metadata.name, { metadata: { finalizers: null } })
  kubeletSays(await podOf('stuck', 'server:2'), isReady)
  await stage.said('MCPServer', 'stuck', 'Ready', 'True PodsReady')
})

test('the scheduler’s message about a missing claim is reported word for word', async () => {
  const volumes = [{ name: 'files', persistentVolumeClaim: { claimName: 'files' } }]
  const podTemplateSpec = { spec: { volumes } }
  const message = '0/3 nodes are available: persistentvolumeclaim "files" not found'
  for (const [name, transport] of [
    ['claiming-pipe', 'stdio'],
    ['claiming-web', 'streamable-http'],
  ] as const) {
    stage.apply(server(name, { transport, podTemplateSpec }))
    const conditions = [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }]
    kubeletSays(await podOf(name, 'server:1'), { phase: 'Pending', conditions })
    await stage.said('MCPServer', name, 'Progressing', /^True Unschedulable: .*: 0\/3 nodes .*"files" not found/)
  }
})

test('an evicted pod is reported until another pod takes its place', async () => {
  stage.apply(server('evicted'))
  const first = await podOf('evicted', 'server:1')
  const terminated = { exitCode: 137, reason: 'Error' }
  const [status] = waitsFor('', '').containerStatuses
  const transition = { type: 'Ready', status: 'False', lastTransitionTime: new Date().toISOString() }
  kubeletSays(first, {
    ...{ phase: 'Failed', reason: 'Evicted', message: 'The node was low on resource: memory.' },
    ...{ containerStatuses: [{ ...status, state: { terminated } }], conditions: [transition] },
  })
  await stage.said('MCPServer', 'evicted', 'Progressing', 'True Evicted: 0 of 1 pods are ready: pod evicted-mcp-')
  const isSecond = ({ metadata }: LiveObject) => metadata.uid !== first.metadata.uid
  const second = await eventually(
    () => stage.podsWith('app.kubernetes.io/instance=evicted').find(isSecond),
    'another pod',
  )
  kubeletSays(second, waitsFor('ImagePullBackOff', 'no such image'))
  await stage.said('MCPServer', 'evicted', 'Progressing', /^True ImagePullBackOff: /)
  kubeletSays(second, isReady)
  await stage.said('MCPServer', 'evicted', 'Ready', 'True PodsReady')
})

test('a StatefulSet of an earlier version is replaced while its pod keeps running', async () => {
  const LABEL = 'portico.dev/installation'
  stage.apply(server('kept', { transport: 'stdio' }))
  const pod = await podOf('kept', 'server:1')
  kubeletSays(pod, isReady)
  await stage.said('MCPServer', 'kept', 'Ready', 'True PodsReady')
  // The operator is down while the workload is created as the earlier version did.
  stage.plane.mergePatch('mcpserver', 'kept', { metadata: { labels: { [LABEL]: 'nobody' } } })
  const { metadata, apiVersion, kind, spec } = await stage.get('StatefulSet', 'kept-mcp')
  stage.plane.orphan('statefulset', 'kept-mcp')
  await stage.gone('StatefulSet', 'kept-mcp')
  const { name, namespace, labels, annotations, ownerReferences } = metadata
  const earlier = {
    ...{ apiVersion, kind, metadata: { name, namespace, labels, annotations, ownerReferences } },
    spec: { ...spec, podManagementPolicy: 'OrderedReady' },
  }
  stage.plane.applyOnServer([earlier], { manager: 'portico' })
  const taken = (uid: string) => (one: LiveObject) => one.metadata.ownerReferences?.[0].uid === uid
  const before = await stage.get('StatefulSet', 'kept-mcp')
  await stage.until('Pod', pod.metadata.name, taken(before.metadata.uid))
  stage.plane.mergePatch('mcpserver', 'kept', { metadata: { labels: { [LABEL]: null } } })
  const after = await stage.until('StatefulSet', 'kept-mcp', (one) => one.spec['podManagementPolicy'] === 'Parallel')
  const { metadata: now } = await stage.until('Pod', pod.metadata.name, taken(after.metadata.uid))
  assert.is(now.uid, pod.metadata.uid, 'it is the same pod')
  await stage.said('MCPServer', 'kept', 'Ready', 'True PodsReady')
})

/** Starts a webhook in this process that refuses every pod of a namespace. Returns the function that ends it. */
async function refuseByWebhook(name: string, namespace: string, message: string): Promise<() => Promise<void>> {
  const authority = await createAuthority()
  const refuse = async (asked: IncomingMessage, answer: ServerResponse) => {
    const { apiVersion, kind, request } = (await json(asked)) as Record<string, never> & { request: { uid: string } }
    const response = { uid: request.uid, allowed: false, status: { message } }
    answer.setHeader('content-type', 'application/json').end(JSON.stringify({ apiVersion, kind, response }))
  }
  const server = createServer({ key: authority.key, cert: authority.cert }, (asked, answer) => {
    refuse(asked, answer).catch(() => answer.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const configuration = {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingWebhookConfiguration',
    metadata: { name },
    webhooks: [
      {
        name,
        clientConfig: { url: `https://127.0.0.1:${port}/`, caBundle: Buffer.from(authority.ca).toString('base64') },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
      },
    ],
  }
  stage.plane.apply(configuration)
  return async () => {
    stage.plane.remove('validatingwebhookconfiguration', name)
    server.closeAllConnections()
    server.close()
    await authority.remove()
  }
}

test('the reason for which pods are refused is reported word for word, for stdio and HTTP servers', async () => {
  const namespace = 'refusing'
  const of = (kind: string, name: string, spec: object) => ({
    apiVersion: 'v1',
    kind,
    metadata: { name, namespace },
    spec,
  })
  const { apply } = stage.plane
  apply(namespaceOf(namespace))
  const pairIn = (namespace: string, spec: object = {}) => [
    manifest('MCPServer', 'pipe', { image: 'server:1', transport: 'stdio', ...spec }, namespace),
    manifest('MCPServer', 'web', { image: 'server:1', transport: 'streamable-http', ...spec }, namespace),
  ]
  const pair = pairIn(namespace)
  const told = (name: string, pattern: RegExp, where = namespace) =>
    eventually(async () => {
      const object = await stage.find('MCPServer', name, where)
      const progress = object?.status?.conditions?.find(({ type }) => type === 'Progressing')
      const text = `${progress?.reason}: ${progress?.message}`
      if (pattern.test(text)) return text
      throw new Error(text)
    }, `${name}: ${pattern}`)
  apply(namespaceOf('restricted', { 'pod-security.kubernetes.io/enforce': 'restricted' }))
  const mcp = { name: 'mcp', securityContext: { allowPrivilegeEscalation: true } }
  apply(...pairIn('restricted', { podTemplateSpec: { spec: { containers: [mcp] } } }))
  apply(namespaceOf('hooked'))
  const over = await refuseByWebhook('pods.example.com', 'hooked', 'the image is not signed')
  apply(...pairIn('hooked'))

  apply(of('ResourceQuota', 'none', { hard: { pods: '0' } }))
  await eventually(
    async () => (await stage.find('ResourceQuota', 'none', namespace))?.status?.['hard'] !== undefined,
    'the quota is in force',
  )
  apply(...pair)
  for (const name of ['pipe', 'web']) await told(name, /^FailedCreate: .*exceeded quota: none/)
  // Another reason replaces the first.
  stage.plane.remove('resourcequota', 'none', namespace)
  for (const { metadata } of pair) stage.plane.remove('mcpserver', metadata.name, namespace)
  apply(of('LimitRange', 'small', { limits: [{ type: 'Container', max: { memory: '1Mi' } }] }))
  await eventually(
    async () => (await stage.find('StatefulSet', 'pipe-mcp', namespace)) === undefined,
    'the StatefulSet goes',
  )
  apply(...pair)
  for (const name of ['pipe', 'web']) await told(name, /^FailedCreate: .*maximum memory usage per Container is 1Mi/)
  stage.plane.remove('limitrange', 'small', namespace)

  const byLevel =
    /^FailedCreate: .*violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false \(container "mcp" must set/
  const byHook = /^FailedCreate: .*admission webhook "pods\.example\.com" denied the request: the image is not signed/
  for (const name of ['pipe', 'web']) {
    await told(name, byLevel, 'restricted')
    await told(name, byHook, 'hooked')
  }
  await over()
  for (const one of [namespace, 'restricted', 'hooked']) stage.plane.remove('namespace', one)
})

test('the kubelet’s message about a missing volume is reported word for word until the containers run', async () => {
  for (const [name] of MOUNTING) {
    const why = `FailedMount: .*: pod ${name}-mcp-.*: MountVolume.SetUp failed .* configmap "a" not found$`
    for (const type of ['Ready', 'Progressing']) await stage.said('MCPServer', name, type, new RegExp(why))
    const running = { name: 'mcp', image: 'x', imageID: '', ready: false, restartCount: 0, state: { running: {} } }
    kubeletSays(await podOf(name, 'server:1'), { containerStatuses: [running] })
    await stage.said('MCPServer', name, 'Progressing', /^True Progressing: (?!.*MountVolume)/)
  }
})

test.run()
