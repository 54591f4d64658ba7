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
import { buildNamespace, group, type Manifest, manifest } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'
import { newStage } from '../support/stage.ts'

const stage = newStage()

const server = (name: string, spec: object = {}) =>
  manifest('MCPServer', name, { image: 'server:1', transport: 'streamable-http', ...spec })

const container = (name: string, image: string) => ({
  podTemplateSpec: { spec: { containers: [{ name, image }] } },
})

/** Waits until a workload has a pod with this image that is not being deleted, and returns it. */
const findPod = (name: string, image: string): Promise<LiveObject> =>
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
function setPodStatus({ metadata }: LiveObject, status: object): void {
  const patch = { status: { phase: 'Running', ...status } }
  stage.plane.patch('pod', metadata.name, patch, { subresource: 'status', type: 'strategic' })
}
const isReady = { conditions: [{ type: 'Ready', status: 'True' }] }
const buildWaiting = (reason: string, message: string) => ({
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
    const pod = await findPod(name, 'server:1')
    setPodStatus(pod, buildWaiting('ContainerCreating', ''))
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
  const old = await findPod('web', 'server:1')
  await stage.waitForCondition('MCPServer', 'web', 'Progressing', 'True Progressing: 0 of 1 pods are ready')
  setPodStatus(old, isReady)
  await stage.waitForCondition('MCPServer', 'web', 'Ready', 'True PodsReady')
  await stage.waitForCondition('MCPServer', 'web', 'Progressing', /^$/)

  stage.apply(server('web', { image: 'server:2' }))
  setPodStatus(await findPod('web', 'server:2'), buildWaiting('ImagePullBackOff', 'no such image'))
  const why = /ImagePullBackOff: 1 of 1 pods are ready, .*: container mcp: no such image/
  await stage.waitForCondition('MCPServer', 'web', 'Progressing', why)
  await stage.waitForCondition('MCPServer', 'web', 'Ready', why)
  const { status } = await stage.get('MCPServer', 'web')
  assert.equal([status.phase, status['readyReplicas']], ['Degraded', 1])
  const uids = stage.podsWith('app.kubernetes.io/instance=web').map(({ metadata }) => metadata.uid)
  assert.ok(uids.includes(old.metadata.uid), 'the old pod is there')
  assert.is(status.conditions.find(({ type }) => type === 'Ready')?.status, 'False')

  stage.apply(server('web', { image: 'server:3' }))
  setPodStatus(await findPod('web', 'server:3'), isReady)
  await stage.waitForCondition('MCPServer', 'web', 'Ready', 'True PodsReady')
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
    setPodStatus(await findPod(name, 'own:1'), isReady)
    await stage.waitForCondition(kind, name, 'Ready', 'True PodsReady')
    stage.apply(object('own:2'))
    setPodStatus(await findPod(name, 'own:2'), buildWaiting('ImagePullBackOff', 'no such image'))
    for (const [type, status] of [
      ['Ready', 'False'],
      ['Progressing', 'True'],
      ['Reconciling', 'True'],
    ] as const)
      await stage.waitForCondition(
        kind,
        name,
        type,
        new RegExp(`^${status} ImagePullBackOff: .* of 1 pods are ready.*: no such image`),
      )
    stage.apply(object('own:3'))
    setPodStatus(await findPod(name, 'own:3'), isReady)
    await stage.waitForCondition(kind, name, 'Ready', 'True PodsReady')
  })

test('problems of pods of an earlier revision are not reported for the newest', async () => {
  stage.apply(server('mended', { image: 'server:1' }))
  setPodStatus(await findPod('mended', 'server:1'), buildWaiting('CrashLoopBackOff', 'exit 1'))
  await stage.waitForCondition('MCPServer', 'mended', 'Ready', 'False CrashLoopBackOff')
  stage.apply(server('mended', { image: 'server:2' }))
  await findPod('mended', 'server:2')
  await stage.waitForCondition('MCPServer', 'mended', 'Progressing', /^True Progressing: /)
})

test('a stdio server replaces a pod that does not start when its template changes', async () => {
  const stdio = (image: string, spec: object = {}) => server('pipe', { transport: 'stdio', image, ...spec })
  stage.apply(stdio('server:1'))
  const broken = await findPod('pipe', 'server:1')
  setPodStatus(broken, buildWaiting('ImagePullBackOff', 'no such image'))
  await stage.waitForCondition('MCPServer', 'pipe', 'Progressing', 'True ImagePullBackOff')
  stage.apply(stdio('server:2'))
  const next = await findPod('pipe', 'server:2')
  await stage.waitForCondition('MCPServer', 'pipe', 'Progressing', /^True Progressing: (?!.*no such image)/)
  // Changes of arguments and volumes replace the pod as well.
  setPodStatus(next, buildWaiting('CrashLoopBackOff', 'exit 1'))
  stage.apply(stdio('server:2', { args: ['--right'] }))
  const right = await eventually(
    () =>
      stage
        .podsWith('app.kubernetes.io/instance=pipe')
        .find((pod) => !pod.metadata.deletionTimestamp && JSON.stringify(pod.spec['containers']).includes('--right')),
    'a pod with the argument',
  )
  setPodStatus(right, isReady)
  await stage.waitForCondition('MCPServer', 'pipe', 'Ready', 'True PodsReady')
})

test('a stdio server whose broken pod has a finalizer of others continues once that is removed', async () => {
  stage.apply(server('stuck', { transport: 'stdio' }))
  const { metadata } = await findPod('stuck', 'server:1')
  stage.plane.mergePatch('pod', metadata.name, { metadata: { finalizers: ['example.com/hold'] } })
  setPodStatus(await findPod('stuck', 'server:1'), buildWaiting('ImagePullBackOff', 'no such image'))
  await stage.waitForCondition('MCPServer', 'stuck', 'Progressing', 'True ImagePullBackOff')
  stage.apply(server('stuck', { transport: 'stdio', image: 'server:2' }))
  await stage.until('Pod', metadata.name, (one) => one.metadata.deletionTimestamp)
  await stage.waitForCondition('MCPServer', 'stuck', 'Progressing', /^True Progressing: (?!.*no such image)/)
  stage.plane.mergePatch('pod', metadata.name, { metadata: { finalizers: null } })
  setPodStatus(await findPod('stuck', 'server:2'), isReady)
  await stage.waitForCondition('MCPServer', 'stuck', 'Ready', 'True PodsReady')
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
    setPodStatus(await findPod(name, 'server:1'), { phase: 'Pending', conditions })
    await stage.waitForCondition(
      'MCPServer',
      name,
      'Progressing',
      /^True Unschedulable: .*: 0\/3 nodes .*"files" not found/,
    )
  }
})

test('an evicted pod is reported until another pod takes its place', async () => {
  stage.apply(server('evicted'))
  const first = await findPod('evicted', 'server:1')
  const terminated = { exitCode: 137, reason: 'Error' }
  const [status] = buildWaiting('', '').containerStatuses
  const transition = { type: 'Ready', status: 'False', lastTransitionTime: new Date().toISOString() }
  setPodStatus(first, {
    ...{ phase: 'Failed', reason: 'Evicted', message: 'The node was low on resource: memory.' },
    ...{ containerStatuses: [{ ...status, state: { terminated } }], conditions: [transition] },
  })
  await stage.waitForCondition(
    'MCPServer',
    'evicted',
    'Progressing',
    'True Evicted: 0 of 1 pods are ready: pod evicted-mcp-',
  )
  const isSecond = ({ metadata }: LiveObject) => metadata.uid !== first.metadata.uid
  const second = await eventually(
    () => stage.podsWith('app.kubernetes.io/instance=evicted').find(isSecond),
    'another pod',
  )
  setPodStatus(second, buildWaiting('ImagePullBackOff', 'no such image'))
  await stage.waitForCondition('MCPServer', 'evicted', 'Progressing', /^True ImagePullBackOff: /)
  setPodStatus(second, isReady)
  await stage.waitForCondition('MCPServer', 'evicted', 'Ready', 'True PodsReady')
})

test('a StatefulSet of an earlier version is replaced while its pod keeps running', async () => {
  const LABEL = 'portico.dev/installation'
  stage.apply(server('kept', { transport: 'stdio' }))
  const pod = await findPod('kept', 'server:1')
  setPodStatus(pod, isReady)
  await stage.waitForCondition('MCPServer', 'kept', 'Ready', 'True PodsReady')
  // The operator is down while the workload is created as the earlier version did.
  stage.plane.mergePatch('mcpserver', 'kept', { metadata: { labels: { [LABEL]: 'nobody' } } })
  const { metadata, apiVersion, kind, spec } = await stage.get('StatefulSet', 'kept-mcp')
  stage.plane.orphan('statefulset', 'kept-mcp')
  await stage.waitUntilGone('StatefulSet', 'kept-mcp')
  const { name, namespace, labels, annotations, ownerReferences } = metadata
  const earlier = {
    ...{ apiVersion, kind, metadata: { name, namespace, labels, annotations, ownerReferences } },
    spec: { ...spec, podManagementPolicy: 'OrderedReady' },
  }
  stage.plane.applyOnServer([earlier], { manager: 'portico' })
  const isOwnedBy = (uid: string) => (one: LiveObject) => one.metadata.ownerReferences?.[0].uid === uid
  const before = await stage.get('StatefulSet', 'kept-mcp')
  await stage.until('Pod', pod.metadata.name, isOwnedBy(before.metadata.uid))
  stage.plane.mergePatch('mcpserver', 'kept', { metadata: { labels: { [LABEL]: null } } })
  const after = await stage.until('StatefulSet', 'kept-mcp', (one) => one.spec['podManagementPolicy'] === 'Parallel')
  const { metadata: now } = await stage.until('Pod', pod.metadata.name, isOwnedBy(after.metadata.uid))
  assert.is(now.uid, pod.metadata.uid, 'it is the same pod')
  await stage.waitForCondition('MCPServer', 'kept', 'Ready', 'True PodsReady')
})

/** Starts a webhook in this process that refuses every pod of a namespace. Returns the function that ends it. */
async function refuseByWebhook(name: string, namespace: string, message: string): Promise<() => Promise<void>> {
  const authority = await createAuthority()
  const refuse = async (incoming: IncomingMessage, answer: ServerResponse) => {
    const { apiVersion, kind, request } = (await json(incoming)) as Record<string, never> & { request: { uid: string } }
    const response = { uid: request.uid, allowed: false, status: { message } }
    answer.setHeader('content-type', 'application/json').end(JSON.stringify({ apiVersion, kind, response }))
  }
  const server = createServer({ key: authority.key, cert: authority.cert }, (request, answer) => {
    refuse(request, answer).catch(() => answer.destroy())
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
  const buildObject = (kind: string, name: string, spec: object) => ({
    apiVersion: 'v1',
    kind,
    metadata: { name, namespace },
    spec,
  })
  const { apply } = stage.plane
  apply(buildNamespace(namespace))
  const pairIn = (namespace: string, spec: object = {}) => [
    manifest('MCPServer', 'pipe', { image: 'server:1', transport: 'stdio', ...spec }, namespace),
    manifest('MCPServer', 'web', { image: 'server:1', transport: 'streamable-http', ...spec }, namespace),
  ]
  const pair = pairIn(namespace)
  const waitForReason = (name: string, pattern: RegExp, where = namespace) =>
    eventually(async () => {
      const object = await stage.find('MCPServer', name, where)
      const progress = object?.status?.conditions?.find(({ type }) => type === 'Progressing')
      const text = `${progress?.reason}: ${progress?.message}`
      if (pattern.test(text)) return text
      throw new Error(text)
    }, `${name}: ${pattern}`)
  apply(buildNamespace('restricted', { 'pod-security.kubernetes.io/enforce': 'restricted' }))
  const mcp = { name: 'mcp', securityContext: { allowPrivilegeEscalation: true } }
  apply(...pairIn('restricted', { podTemplateSpec: { spec: { containers: [mcp] } } }))
  apply(buildNamespace('hooked'))
  const over = await refuseByWebhook('pods.example.com', 'hooked', 'the image is not signed')
  apply(...pairIn('hooked'))

  apply(buildObject('ResourceQuota', 'none', { hard: { pods: '0' } }))
  await eventually(
    async () => (await stage.find('ResourceQuota', 'none', namespace))?.status?.['hard'] !== undefined,
    'the quota is in force',
  )
  apply(...pair)
  for (const name of ['pipe', 'web']) await waitForReason(name, /^FailedCreate: .*exceeded quota: none/)
  // Another reason replaces the first.
  stage.plane.remove('resourcequota', 'none', namespace)
  for (const { metadata } of pair) stage.plane.remove('mcpserver', metadata.name, namespace)
  apply(buildObject('LimitRange', 'small', { limits: [{ type: 'Container', max: { memory: '1Mi' } }] }))
  await eventually(
    async () => (await stage.find('StatefulSet', 'pipe-mcp', namespace)) === undefined,
    'the StatefulSet goes',
  )
  apply(...pair)
  for (const name of ['pipe', 'web'])
    await waitForReason(name, /^FailedCreate: .*maximum memory usage per Container is 1Mi/)
  stage.plane.remove('limitrange', 'small', namespace)

  const byLevel =
    /^FailedCreate: .*violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false \(container "mcp" must set/
  const byHook = /^FailedCreate: .*admission webhook "pods\.example\.com" denied the request: the image is not signed/
  for (const name of ['pipe', 'web']) {
    await waitForReason(name, byLevel, 'restricted')
    await waitForReason(name, byHook, 'hooked')
  }
  await over()
  for (const one of [namespace, 'restricted', 'hooked']) stage.plane.remove('namespace', one)
})

test('the kubelet’s message about a missing volume is reported word for word until the containers run', async () => {
  for (const [name] of MOUNTING) {
    const why = `FailedMount: .*: pod ${name}-mcp-.*: MountVolume.SetUp failed .* configmap "a" not found$`
    for (const type of ['Ready', 'Progressing']) await stage.waitForCondition('MCPServer', name, type, new RegExp(why))
    const running = { name: 'mcp', image: 'x', imageID: '', ready: false, restartCount: 0, state: { running: {} } }
    setPodStatus(await findPod(name, 'server:1'), { containerStatuses: [running] })
    await stage.waitForCondition('MCPServer', name, 'Progressing', /^True Progressing: (?!.*MountVolume)/)
  }
})

test.run()
