/** The quickstart on a node that runs its pods: install, apply, use, change, break, and heal. */
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import { resourceNamed } from '../cluster/support/resources.ts'
import { connect, connectV1, readText } from '../support/gateway/clients.ts'
import { keepAsking, type ToolCall } from '../support/gateway/kept-client.ts'
import {
  admin,
  apply,
  beside,
  createNamespace,
  installOperator,
  isReady,
  killContainer,
  kubectl,
  listBeside,
  listContainers,
  listPods,
  namesIn,
  type Pod,
  podsIn,
  until,
  untilReady,
} from '../support/operator/e2e-cluster.ts'

const NAMESPACE = 'quickstart'
const sample = (name: string) => parse(readFileSync(`samples/quickstart/${name}.yaml`, 'utf8'))

/** Less than the time in which a kubelet by itself updates a changed ConfigMap in a pod. */
const TOUCHED_MS = 45_000

/** A pod's identity and its container starts; it is the same before and after if nothing restarted. */
const listRestarts = (pods: readonly Pod[]) =>
  pods.map((pod) => [pod.metadata.uid, listContainers(pod).map(({ name, restartCount }) => [name, restartCount])])

let uninstall = () => {}
let gatewayUrl = ''
let everythingUrl = ''
let registryUrl = ''

test('the operator runs under its own RBAC in a restricted namespace, and one of two leads', async () => {
  uninstall = await installOperator('cluster')
  const pods = namesIn('portico-system', 'pods')
  assert.is(pods.length, 2)
  // Pods are Ready whether they lead or not.
  await until('one leads', 'portico-system', () => {
    const holder = admin.find('lease', 'portico-operator', 'portico-system')?.spec['holderIdentity']
    return pods.some((name) => String(holder).startsWith(`${name}_`))
  })
})

test('the samples become Ready in a restricted namespace', async () => {
  createNamespace(NAMESPACE)
  kubectl(['apply', '--namespace', NAMESPACE, '--filename', 'samples/quickstart'])
  ;[gatewayUrl, everythingUrl, registryUrl] = await Promise.all([
    untilReady(NAMESPACE, 'VirtualMCPServer', 'tools'),
    untilReady(NAMESPACE, 'MCPServer', 'everything'),
    untilReady(NAMESPACE, 'MCPRegistry', 'catalog'),
    untilReady(NAMESPACE, 'MCPServer', 'clock'),
    untilReady(NAMESPACE, 'MCPGroup', 'quickstart'),
  ])
  assert.is(podsIn(NAMESPACE).length, 4)
  await until('all pods are Ready', NAMESPACE, () => podsIn(NAMESPACE).every(isReady))
})

test('the gateway shows the tools of both servers', async () => {
  const expected = ['clock_convert_time', 'everything_echo']
  const { client } = await connect(gatewayUrl, 'modern')
  try {
    await until('both servers’ tools are listed', NAMESPACE, async () => {
      const listed = new Set((await client.listTools()).tools.map(({ name }) => name))
      return expected.every((name) => listed.has(name)) && !listed.has('everything_get-env')
    })
  } finally {
    await client.close()
  }
})

test('kubectl get shows the columns', async () => {
  const rows = (resource: string) => {
    const [head = '', ...lines] = kubectl(['get', resource, '--namespace', NAMESPACE]).trim().split('\n')
    return { head: head.trim().split(/\s+/), text: lines.join('\n') }
  }
  assert.equal(rows('vmcp').head.slice(0, 5), ['NAME', 'PHASE', 'URL', 'BACKENDS', 'READY'])
  // Pods report the state of their backends a moment later.
  for (const [resource, row] of [
    ['vmcp', new RegExp(`^tools +Ready +${gatewayUrl} +2 +True`)],
    ['mcpserver', /^clock +Ready +True +1 /m],
    ['mcpreg', /^catalog +Ready /],
    ['mcpg', /^quickstart +2 /],
    ['mcpotel', /^shared /],
  ] as const)
    await until(`the row of ${resource}`, NAMESPACE, () => row.test(rows(resource).text))
  assert.equal(admin.read('mcpotel', 'shared', NAMESPACE).status.referencingWorkloads, [
    { kind: 'MCPServer', name: 'clock' },
    { kind: 'MCPServer', name: 'everything' },
    { kind: 'VirtualMCPServer', name: 'tools' },
  ])
})

test('every workload has its NetworkPolicy', () => {
  const policies = namesIn(NAMESPACE, 'networkpolicies')
  assert.equal(policies, ['catalog-mcpreg', 'clock-mcp', 'everything-mcp', 'tools-vmcp'])
})

for (const era of ['modern', 'legacy'] as const) {
  test(`a client of the ${era} era calls tools through the gateway’s Service`, async () => {
    const { client } = await connect(gatewayUrl, era)
    try {
      const echoed = await client.callTool({ name: 'everything_echo', arguments: { message: 'hello' } })
      assert.match(readText(echoed), /hello/)
      const time = { time: '2026-11-20T15:00', from: 'Europe/Lisbon', to: ['Asia/Tokyo'] }
      const converted = await client.callTool({ name: 'clock_convert_time', arguments: time })
      assert.match(readText(converted), /00:00/)
    } finally {
      await client.close()
    }
  })

  test(`a client of the ${era} era calls a tool through a server’s own Service`, async () => {
    const { client } = await connect(everythingUrl, era)
    try {
      assert.match(readText(await client.callTool({ name: 'echo', arguments: { message: 'hi' } })), /hi/)
    } finally {
      await client.close()
    }
  })
}

test('the registry answers through its Service', async () => {
  const response = await fetch(`${registryUrl}/registry/public/v0.1/servers?limit=100`)
  assert.is(response.status, 200)
  const { servers } = (await response.json()) as { servers: { server: { name: string } }[] }
  assert.ok(servers.some(({ server }) => server.name === 'io.github.github/github-mcp-server'))
})

test('a rollout under clients of both eras with kept connections loses nothing', async () => {
  const slow: ToolCall = { name: 'everything_trigger-long-running-operation', arguments: { duration: 2, steps: 1 } }
  const fast: ToolCall = { name: 'everything_echo', arguments: { message: 'hello' } }
  const stopAsking = keepAsking({
    url: gatewayUrl,
    clients: 10,
    pause: 250,
    call: (isSlow) => (isSlow ? slow : fast),
    isAnswer: (body) => /hello|completed/.test(body),
  })
  const [old] = listPods(NAMESPACE, 'VirtualMCPServer', 'tools') as [Pod]
  // As `kubectl rollout restart` does. A synchronous kubectl would block this process, in which the clients run.
  const annotations = { 'kubectl.kubernetes.io/restartedAt': new Date().toISOString() }
  const restart = { spec: { template: { metadata: { annotations } } } }
  await beside.api.mergePatch(resourceNamed('deployment'), NAMESPACE, 'tools-vmcp', restart)
  const pods = async () => (await listBeside('pods', NAMESPACE)).map(({ metadata }) => metadata.name)
  await until('the old pod has gone', NAMESPACE, async () => !(await pods()).includes(old.metadata.name))
  const { visits, lost } = await stopAsking()
  assert.equal(lost, [], `of ${visits}`)
  assert.ok(visits > 50, `${visits} visits`)
})

test('the scheduler’s message about a missing claim is in the status', async () => {
  const namespace = createNamespace('claims')
  const volumes = [{ name: 'files', persistentVolumeClaim: { claimName: 'files' } }]
  const spec = { image: 'mcp/time:1', transport: 'stdio', podTemplateSpec: { spec: { volumes } } }
  apply(namespace, { apiVersion: 'portico.dev/v1beta1', kind: 'MCPServer', metadata: { name: 'pipe' }, spec })
  await until('the reason is reported in full', namespace, () => {
    const { status } = admin.read('mcpserver', 'pipe', namespace)
    const ready = status?.conditions?.find(({ type }) => type === 'Ready')
    return ready?.reason === 'Unschedulable' && /persistentvolumeclaim "files" not found/.test(ready.message)
  })
  kubectl(['delete', 'namespace', namespace, '--wait=false'])
})

test('a changed tool filter reaches the running pod before the kubelet’s next round, and the session continues', async () => {
  const before = listRestarts(listPods(NAMESPACE, 'VirtualMCPServer', 'tools'))
  const { client, transport } = await connectV1(gatewayUrl)
  try {
    const session = transport.sessionId
    const isListed = async (name: string) => (await client.listTools()).tools.some((tool) => tool.name === name)
    assert.not.ok(await isListed('everything_get-env'))
    const gateway = sample('gateway')
    gateway.spec.config.aggregation.tools[0].filter.push('get-env')
    apply(NAMESPACE, gateway)
    await until('the session sees the tool', NAMESPACE, () => isListed('everything_get-env'), TOUCHED_MS)
    assert.ok(session)
    assert.is(transport.sessionId, session)
    assert.equal(listRestarts(listPods(NAMESPACE, 'VirtualMCPServer', 'tools')), before)
  } finally {
    await client.close()
  }
})

test('a changed catalog reaches the registry without a restart', async () => {
  const before = listRestarts(listPods(NAMESPACE, 'MCPRegistry', 'catalog'))
  const catalog = sample('catalog')
  const content = JSON.parse(catalog.data['registry.json'])
  content.data.servers.push({ ...content.data.servers[0], name: 'com.example/added' })
  catalog.data['registry.json'] = JSON.stringify(content)
  apply(NAMESPACE, catalog)
  await until('the registry lists the server', NAMESPACE, async () => {
    const response = await fetch(`${registryUrl}/registry/public/v0.1/servers/com.example%2Fadded/versions/latest`)
    await response.text()
    return response.status === 200
  })
  assert.equal(listRestarts(listPods(NAMESPACE, 'MCPRegistry', 'catalog')), before)
})

/** Calls a tool on new connections until one call succeeds. */
const answers = async (url: string, tool: string) => {
  try {
    const { client } = await connect(url, 'modern')
    try {
      return readText(await client.callTool({ name: tool, arguments: { message: 'again' } })).includes('again')
    } finally {
      await client.close()
    }
  } catch {
    return false
  }
}

test('a killed sidecar comes back beside its server', async () => {
  const [pod] = listPods(NAMESPACE, 'MCPServer', 'everything') as [Pod]
  const sidecar = listContainers(pod).find(({ name }) => name === 'portico')
  assert.ok(sidecar)
  killContainer(sidecar)
  await until('the sidecar has restarted', NAMESPACE, () => {
    const [now] = listPods(NAMESPACE, 'MCPServer', 'everything')
    if (!now || now.metadata.uid !== pod.metadata.uid) return false
    return isReady(now) && listContainers(now).some(({ name, restartCount }) => name === 'portico' && restartCount >= 1)
  })
  await until('a call succeeds', NAMESPACE, () => answers(everythingUrl, 'echo'))
  await until('a call through the gateway succeeds', NAMESPACE, () => answers(gatewayUrl, 'everything_echo'))
})

test('a deleted pod is replaced, and status says so', async () => {
  const [pod] = listPods(NAMESPACE, 'VirtualMCPServer', 'tools') as [Pod]
  kubectl(['delete', 'pod', pod.metadata.name, '--namespace', NAMESPACE, '--wait=false'])
  await until('another pod is Ready', NAMESPACE, () =>
    listPods(NAMESPACE, 'VirtualMCPServer', 'tools').some(
      (other) => other.metadata.uid !== pod.metadata.uid && isReady(other),
    ),
  )
  await untilReady(NAMESPACE, 'VirtualMCPServer', 'tools')
  await until('a call succeeds', NAMESPACE, () => answers(gatewayUrl, 'everything_echo'))
})

test('deleted samples leave nothing behind', async () => {
  kubectl(['delete', '--namespace', NAMESPACE, '--filename', 'samples/quickstart', '--timeout', '240s'])
  const children = 'deployments,statefulsets,services,configmaps,networkpolicies,pods'
  const listLeft = () => namesIn(NAMESPACE, children).filter((name) => name !== 'kube-root-ca.crt')
  await until('children are gone', NAMESPACE, () => listLeft().length === 0)
  uninstall()
})

test.after(() => beside.close())

test.run()
