import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { kubernetes, minorVersion } from '../support/binary.ts'
import { newCluster } from '../support/cluster.ts'
import { gateway, group, manifest, telemetry } from '../support/manifests.ts'
import { eventually, OPERATOR_USER } from '../support/operator-process.ts'
import { waitUntilStill } from '../support/stands-still.ts'

const cluster = newCluster()
const { apply, condition, exists, kubectl, read } = cluster

const findReady = (kind: string, name: string) => condition(kind, name, 'Ready')
const writes = () =>
  cluster
    .written()
    .map(({ verb, resource, subresource, name, code }) => `${verb} ${resource}/${subresource} ${name} ${code}`)
const statusPatch = (kind: string, name: string, type: 'json' | 'merge', patch: object) =>
  cluster.patch(kind, name, patch, { subresource: 'status', type })

const waitUntilQuiet = () => waitUntilStill(() => writes().length)

const CHILDREN = [
  ['deployment', 'front-vmcp'],
  ['service', 'vmcp-front'],
  ['configmap', 'front-vmcp-config'],
  ['networkpolicy', 'front-vmcp'],
] as const
const STDIO = ['statefulset', 'serviceaccount', 'role', 'rolebinding'] as const
const stdio = () => manifest('MCPServer', 'desk', { image: 'time:test', transport: 'stdio' })

test.before(async () => {
  await cluster.start()
  apply(group(), telemetry('main'), gateway('front', 'main'), stdio())
  await eventually(() => exists('deployment', 'front-vmcp') && exists('statefulset', 'desk-mcp'), 'children')
  await waitUntilQuiet()
})

test.after(() => cluster.stop())

/** Deletes an object without its children, and waits until it is gone. */
async function orphan(kind: string, name: string): Promise<void> {
  cluster.orphan(kind, name)
  await eventually(() => !exists(kind, name), `${kind} ${name} is gone`)
}

test('a new object of the same name adopts the children that `kubectl delete --cascade=orphan` left behind', async () => {
  const all = [...CHILDREN, ...STDIO.map((kind) => [kind, 'desk-mcp'] as const)]
  const before = new Map(all.map(([kind, name]) => [`${kind}/${name}`, read(kind, name).metadata.uid]))
  kubectl(['delete', 'vmcp', 'front', '--cascade=orphan'])
  await orphan('mcpserver', 'desk')
  for (const [kind, name] of all)
    await eventually(() => read(kind, name).metadata.ownerReferences === undefined, `${kind} ${name} is orphaned`)
  apply(gateway('front', 'main'), stdio())
  const owners = { front: read('vmcp', 'front').metadata.uid, desk: read('mcpserver', 'desk').metadata.uid }
  for (const [kind, name] of all) {
    const owner = name.startsWith('desk') ? owners.desk : owners.front
    await eventually(
      () => read(kind, name).metadata.ownerReferences?.[0]?.uid === owner,
      `${kind} ${name} has an owner`,
    )
    assert.is(read(kind, name).metadata.uid, before.get(`${kind}/${name}`), 'the very same object')
  }
  assert.is.not(findReady('vmcp', 'front')?.reason, 'NameTaken')
})

test('an orphaned child that is no longer wanted is deleted', async () => {
  await orphan('vmcp', 'front')
  await eventually(() => read('networkpolicy', 'front-vmcp').metadata.ownerReferences === undefined, 'orphaned')
  const open = gateway('front', 'main')
  open.spec['networkPolicy'] = { enabled: false }
  apply(open)
  await eventually(() => !exists('networkpolicy', 'front-vmcp'), 'the policy goes')
  apply(gateway('front', 'main'))
  await eventually(() => exists('networkpolicy', 'front-vmcp'), 'and comes back')
})

test('an object with our labels that our field manager has not made is somebody else’s', async () => {
  const { labels } = read('configmap', 'front-vmcp-config').metadata
  const theirs = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name: 'other-vmcp-config',
      namespace: 'default',
      labels: { ...labels, 'app.kubernetes.io/instance': 'other' },
    },
    data: { mine: 'yes' },
  }
  cluster.create(theirs)
  apply(gateway('other'))
  await eventually(() => findReady('vmcp', 'other')?.reason === 'NameTaken', 'NameTaken')
  assert.equal(read('configmap', 'other-vmcp-config').data, { mine: 'yes' })
  await cluster.removeAndWait('vmcp', ['other'])
})

test('an object of somebody else that no watch shows is left alone, and the other children are removed', async () => {
  const template = {
    metadata: { labels: { app: 'theirs' } },
    spec: { containers: [{ name: 'it', image: 'theirs:1' }] },
  }
  const theirs = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'held-vmcp', namespace: 'default' },
    spec: { replicas: 0, selector: { matchLabels: { app: 'theirs' } }, template },
  }
  cluster.create(theirs)
  const { uid } = read('deployment', 'held-vmcp').metadata
  apply(gateway('held'))
  await eventually(() => findReady('vmcp', 'held')?.reason === 'NameTaken', 'NameTaken')
  assert.match(findReady('vmcp', 'held')?.message ?? '', 'Deployment "held-vmcp" belongs to somebody else')
  const others = [
    ['service', 'vmcp-held'],
    ['configmap', 'held-vmcp-config'],
    ['networkpolicy', 'held-vmcp'],
  ] as const
  const areGone = () => others.every(([kind, name]) => !exists(kind, name))
  await eventually(areGone, 'what was created before it goes')
  await waitUntilQuiet()
  const before = writes().filter((line) => / (vmcp-held|held-vmcp)/.test(line)).length
  await delay(2_000)
  assert.ok(areGone(), 'it is not tried again without need')
  assert.is(writes().filter((line) => / (vmcp-held|held-vmcp)/.test(line)).length, before)
  assert.equal(read('deployment', 'held-vmcp').spec.selector, theirs.spec.selector)
  assert.is(read('deployment', 'held-vmcp').metadata.uid, uid)
  cluster.remove('deployment', 'held-vmcp')
  const isOurs = () => exists('deployment', 'held-vmcp') && read('deployment', 'held-vmcp').metadata.uid !== uid
  await eventually(isOurs, 'the gateway is served once the name is free', 180_000)
  await cluster.removeAndWait('vmcp', ['held'])
})

test('a child that `kubectl replace` has overwritten is fully restored', async () => {
  const bare = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'vmcp-front', namespace: 'default' },
    spec: { selector: { app: 'theirs' }, ports: [{ name: 'mcp', port: 9999 }] },
  }
  const { spec } = read('service', 'vmcp-front')
  kubectl(['replace', '-f', '-'], { input: JSON.stringify(bare) })
  await eventually(() => JSON.stringify(read('service', 'vmcp-front').spec) === JSON.stringify(spec), 'kubectl replace')
})

test('a child with a wrong immutable field is recreated', async () => {
  // An operator is not running, and this object has everything that makes it the operator's own.
  await cluster.operator.stop()
  const replaceChild = async (kind: string, name: string, spec: object) => {
    const { metadata, ...live } = read(kind, name)
    const { labels, annotations, ownerReferences } = metadata
    await cluster.removeAndWait(kind, [name])
    const body = { ...live, status: undefined, spec: { ...live.spec, ...spec } }
    const object = { ...body, metadata: { name, namespace: 'default', labels, annotations, ownerReferences } }
    cluster.create(object)
  }
  const theirs = { app: 'theirs' }
  const { template } = read('deployment', 'front-vmcp').spec
  await replaceChild('service', 'vmcp-front', { clusterIP: 'None', clusterIPs: ['None'] })
  await replaceChild('deployment', 'front-vmcp', {
    selector: { matchLabels: theirs },
    template: { ...template, metadata: { labels: theirs } },
  })
  cluster.mergePatch('configmap', 'front-vmcp-config', { immutable: true })
  await cluster.startOperator()
  await eventually(() => read('service', 'vmcp-front').spec.clusterIP !== 'None', 'a headless Service')
  await eventually(
    () => read('deployment', 'front-vmcp').spec.selector.matchLabels['app.kubernetes.io/instance'] === 'front',
    'a selector',
  )
  await eventually(() => read('configmap', 'front-vmcp-config').immutable === undefined, 'an immutable ConfigMap')
})

/** Tells whether the controllers have processed a new Deployment as far as they can without a kubelet. */
const isControlled = (name: string) => {
  const { metadata, status } = read('deployment', name)
  return status?.observedGeneration === metadata.generation && status?.updatedReplicas === 1
}

test('edits of a status are reverted', async () => {
  await eventually(() => isControlled('front-vmcp'), 'the Deployment that was made anew')
  await waitUntilQuiet()
  const forged = { kind: 'MCPServer', name: 'forged' }
  const stalled = {
    type: 'Stalled',
    status: 'True',
    reason: 'Forged',
    message: '',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  }
  for (const [kind, name] of [
    ['vmcp', 'front'],
    ['mcpotel', 'main'],
    ['mcpg', 'tools'],
    ['mcpserver', 'desk'],
  ] as const) {
    const before = JSON.stringify(read(kind, name).status)
    const edits: object[] = [
      [
        {
          op: 'add',
          path: '/status/conditions/-',
          value: { ...stalled, type: kind === 'vmcp' ? 'Stalled' : 'Forged' },
        },
      ],
      [{ op: 'replace', path: '/status/conditions/0/message', value: 'forged' }],
      [{ op: 'remove', path: '/status/conditions/0' }],
      [{ op: 'remove', path: '/status' }],
      [{ op: 'replace', path: '/status/observedGeneration', value: 77 }],
      ...(kind === 'mcpotel' ? [[{ op: 'add', path: '/status/referencingWorkloads/-', value: forged }]] : []),
      ...(kind === 'mcpotel' ? [[{ op: 'remove', path: '/status/referencingWorkloads/0' }]] : []),
      ...(kind === 'mcpg' ? [[{ op: 'add', path: '/status/servers/-', value: 'forged' }]] : []),
    ]
    for (const edit of edits) {
      statusPatch(kind, name, 'json', edit)
      const withoutTimes = (text: string) => text.replaceAll(/"(lastTransitionTime|configHashTime)":"[^"]*"/g, '')
      await eventually(
        () => withoutTimes(JSON.stringify(read(kind, name).status)) === withoutTimes(before),
        `${kind}: ${JSON.stringify(edit)}`,
      )
    }
  }
})

test('the operator does not fight an admission policy that changes each of its writes', async () => {
  // Kubernetes has mutating admission policies since 1.36.
  if (minorVersion(kubernetes()('kube-apiserver')) < 36) return
  const mutation = (expression: string) => ({ patchType: 'ApplyConfiguration', applyConfiguration: { expression } })
  const policy = {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'MutatingAdmissionPolicy',
    metadata: { name: 'mesh' },
    spec: {
      matchConstraints: {
        resourceRules: [
          { apiGroups: ['apps'], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE'], resources: ['deployments'] },
        ],
      },
      failurePolicy: 'Fail',
      reinvocationPolicy: 'Never',
      mutations: [
        mutation(`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
          containers: [Object.spec.template.spec.containers{name: "proxy", image: "mesh:1"},
            Object.spec.template.spec.containers{name: "vmcp", image: "mirror.example/ours:1"}]}}}}`),
      ],
    },
  }
  const binding = { ...policy, kind: 'MutatingAdmissionPolicyBinding', spec: { policyName: 'mesh' } }
  apply(policy, binding)
  const containers = (name: string) =>
    read('deployment', name)
      .spec.template.spec.containers.map((one) => `${one.name}=${one.image}`)
      .sort()
      .join()
  await eventually(() => {
    cluster.mergePatch('deployment', 'front-vmcp', { metadata: { labels: { try: `${Date.now()}` } } })
    return containers('front-vmcp') === 'proxy=mesh:1,vmcp=mirror.example/ours:1'
  }, 'the policy is in force')
  apply(gateway('meshed'))
  await eventually(
    () => containers('meshed-vmcp') === 'proxy=mesh:1,vmcp=mirror.example/ours:1',
    'a new Deployment has the change',
  )
  await eventually(() => isControlled('front-vmcp') && isControlled('meshed-vmcp'), 'the Deployments')
  await waitUntilQuiet()
  const before = writes().length
  // A change of the child makes the operator reconcile it.
  for (const name of ['front', 'meshed'])
    cluster.mergePatch('deployment', `${name}-vmcp`, { metadata: { labels: { look: 'again' } } })
  await delay(3000)
  assert.equal(writes().slice(before), [])
  for (const kind of ['mutatingadmissionpolicybinding', 'mutatingadmissionpolicy'])
    await cluster.removeAndWait(kind, ['mesh'])
})

test('if a policy refuses our finalizer, the status says so, users are served, and the finalizer is set once the policy is gone', async () => {
  // Kubernetes has validating admission policies by default since 1.30.
  if (minorVersion(kubernetes()('kube-apiserver')) < 30) return
  const message = 'only the pipeline changes these objects'
  const policy = {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingAdmissionPolicy',
    metadata: { name: 'pipeline' },
    spec: {
      matchConstraints: {
        resourceRules: [
          { apiGroups: ['portico.dev'], apiVersions: ['*'], operations: ['UPDATE'], resources: ['mcpgroups'] },
        ],
      },
      validations: [{ expression: `request.userInfo.username == 'pipeline'`, message }],
    },
  }
  const binding = {
    ...{ ...policy, kind: 'ValidatingAdmissionPolicyBinding' },
    spec: { policyName: 'pipeline', validationActions: ['Deny'] },
  }
  apply(group('probe'), policy, binding)
  await eventually(() => {
    try {
      cluster.mergePatch('mcpg', 'probe', { metadata: { labels: { try: `${Date.now()}` } } })
      return false
    } catch (error) {
      return String(error).includes(message)
    }
  }, 'the policy is in force')
  apply(group('held'), gateway('holding', undefined, 'held'))
  await eventually(() => findReady('mcpg', 'held')?.reason === 'FinalizerRefused', 'FinalizerRefused')
  assert.match(
    findReady('mcpg', 'held')?.message ?? '',
    /^the finalizer portico\.dev\/in-use can’t be set: .*pipeline changes/,
  )
  await eventually(() => exists('deployment', 'holding-vmcp'), 'the gateway that refers to it is served')
  for (const kind of ['validatingadmissionpolicybinding', 'validatingadmissionpolicy'])
    await cluster.removeAndWait(kind, ['pipeline'])
  await eventually(() => read('mcpg', 'held').metadata.finalizers?.length === 1, 'the finalizer comes', 180_000)
  await eventually(() => findReady('mcpg', 'held')?.status === 'True', 'Ready')
})

test('a write that keeps being refused is reported once and retried ever less often', async () => {
  const quota = {
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: { name: 'no-services', namespace: 'default' },
    spec: { hard: { 'count/services': '0' } },
  }
  apply(quota)
  await eventually(() => read('quota', 'no-services').status?.['hard'] !== undefined, 'the quota is in force')
  const before = writes().length
  apply(gateway('refused'))
  await eventually(() => findReady('vmcp', 'refused')?.reason === 'ChildRefused', 'ChildRefused')
  assert.match(findReady('vmcp', 'refused')?.message ?? '', 'exceeded quota: no-services')
  // Other changes reconcile the workload meanwhile.
  for (let edit = 0; edit < 40; edit++) {
    cluster.mergePatch('vmcp', 'refused', { metadata: { annotations: { 'example.com/edit': `${edit}` } } })
    await delay(100)
  }
  const refused = writes()
    .slice(before)
    .filter((write) => write.includes('vmcp-refused'))
  assert.ok(refused.length <= 20, refused.join('\n'))
  cluster.remove('quota', 'no-services')
  await eventually(() => exists('service', 'vmcp-refused'), 'the Service is created', 180_000)
})

test('a status that the CRD refuses is reported, and written once the CRD accepts it', async () => {
  const name = 'mcpgroups.portico.dev'
  const setBound = (maxItems: number) => {
    const path = '/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/servers/maxItems'
    cluster.patch('crd', name, [{ op: 'replace', path, value: maxItems }], { type: 'json' })
  }
  setBound(0)
  const before = cluster.plane.writes().length
  const refusals = () =>
    cluster.plane
      .writes()
      .slice(before)
      .filter(({ user, code, resource }) => user === OPERATOR_USER && code === 422 && resource === 'mcpgroups')
  const member = manifest('MCPServer', 'member', {
    image: 'x',
    transport: 'streamable-http',
    groupRef: { name: 'tools' },
  })
  await eventually(async () => {
    // The API server accepts the list until it uses the changed schema.
    apply(member)
    const outcome = await eventually(() => {
      const { status } = read('mcpg', 'tools')
      return findReady('mcpg', 'tools')?.reason === 'StatusRefused'
        ? 'refused'
        : status?.servers?.includes('member') && 'taken'
    }, 'the list is refused or taken')
    if (outcome === 'refused') return true
    await cluster.removeAndWait('mcpserver', ['member'])
    await eventually(() => !read('mcpg', 'tools').status?.servers?.includes('member'), 'the list is empty again')
    return false
  }, 'StatusRefused')
  const refusalsBefore = refusals().length
  for (let edit = 0; edit < 10; edit++) {
    apply({ ...member, metadata: { ...member.metadata, annotations: { edit: `${edit}` } } as never })
    await delay(200)
  }
  assert.ok(refusals().length <= refusalsBefore + 5, `${refusals().length} refusals`)
  assert.not(cluster.operator.exited)
  setBound(10_000)
  await eventually(
    () => read('mcpg', 'tools').status?.servers?.includes('member'),
    'the member is in the list',
    180_000,
  )
})

test.run()
