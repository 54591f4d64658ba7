/** Checks that Services lead to the proxy, by EndpointSlices, if users name their ports as we name ours. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { unwrap } from '../../support/unwrap.ts'
import { manifest } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'
import { newStage } from '../support/stage.ts'

const stage = newStage()

/** The endpoints controller takes only pods on nodes that exist. */
const NODE = 'node-of-ports'
const template = (spec: object) => ({ podTemplateSpec: { spec: { nodeName: NODE, ...spec } } })
const port = (name: string, containerPort: number) => [{ name, containerPort }]
const http = { image: 'server:1', transport: 'streamable-http', mcpPort: 8086 }

/** Public manifests name a server's port like the Service's port, or like that of a helper. */
const manifests = {
  renamed: manifest('MCPServer', 'renamed', {
    ...http,
    ...template({ containers: [{ name: 'mcp', ports: port('mcp', 8086) }] }),
  }),
  another: manifest('MCPServer', 'another', {
    ...http,
    ...template({ containers: [{ name: 'mcp', ports: port('mcp', 3000) }] }),
  }),
  helper: manifest('MCPServer', 'helper', {
    image: 'server:1',
    transport: 'stdio',
    ...template({ containers: [{ name: 'cache', image: 'cache:1', ports: port('mcp', 6379) }] }),
  }),
}

interface Slice {
  readonly endpoints: readonly { readonly addresses: readonly string[] }[] | null
  readonly ports: readonly { readonly port: number }[]
}

/** Waits until the Service of a workload has an endpoint. Returns the ports at which its pods are reached. */
const portsBehind = (name: string) =>
  eventually(() => {
    const labels = `kubernetes.io/service-name=mcp-${name}`
    const items = stage.plane.list('endpointslices', { labels }) as unknown as Slice[]
    const found = items.filter(({ endpoints }) => (endpoints ?? []).length > 0)
    return found.length > 0 && found.flatMap(({ ports }) => ports.map((one) => one.port))
  }, `endpoints of ${name}`)

/** Gives the pod of a workload an address, as a kubelet does. */
async function expectAddress(name: string, address: string): Promise<void> {
  const pod = await eventually(() => stage.podsWith(`app.kubernetes.io/instance=${name}`)[0], `a pod of ${name}`)
  const patch = { status: { phase: 'Running', podIP: address, podIPs: [{ ip: address }] } }
  stage.plane.patch('pod', pod.metadata.name, patch, { subresource: 'status' })
}

test.before(async () => {
  await stage.start()
  stage.plane.apply({ apiVersion: 'v1', kind: 'Node', metadata: { name: NODE } })
})
test.after(async () => {
  stage.plane.remove('node', NODE)
  await stage.stop()
})

test('the Service leads to the proxy, whatever the user’s ports are called', async () => {
  stage.apply(...Object.values(manifests))
  for (const [at, name] of Object.keys(manifests).entries()) {
    await expectAddress(name, `10.1.1.${at + 1}`)
    assert.equal(await portsBehind(name), [14_483], name)
    await stage.waitForCondition('MCPServer', name, 'PortNameTaken', /^True PortNameTaken: .*\/ports\/0\/name/)
  }
})

test('a port number of the proxy in a template is refused and changes nothing; a corrected template is rolled out', async () => {
  const { spec } = await stage.get('Deployment', 'another-mcp')
  const { podTemplateSpec: _, ...plain } = manifests.another.spec
  const taken = template({ containers: [{ name: 'mcp', ports: port('web', 14_483) }] })
  stage.apply({ ...manifests.another, spec: { ...plain, ...taken } })
  await stage.waitForCondition(
    'MCPServer',
    'another',
    'Ready',
    /^False PortNameTaken: .*the proxy in the same pod listens on 14483/,
  )
  assert.equal((await stage.get('Deployment', 'another-mcp')).spec, spec)
  stage.apply({ ...manifests.another, spec: plain })
  await stage.waitForCondition('MCPServer', 'another', 'PortNameTaken', /^$/)
  const { template: pod } = (await stage.until('Deployment', 'another-mcp', ({ metadata }) => metadata.generation > 1))
    .spec
  assert.is(unwrap(pod.spec.containers[0]).ports.length, 1)
})

test.run()
