/** Groups and the life of a VirtualMCPServer on a real API server. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { LiveObject, LivePodTemplate } from '../../support/operator/live-object.ts'
import { buildNamespace, group, type Manifest, manifest, serviceAccount } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'
import { newStage } from '../support/stage.ts'
import { waitUntilStill } from '../support/stands-still.ts'

const stage = newStage()

const inGroup = { groupRef: { name: 'tools' } }
const server = (name: string, spec: object = {}, namespace?: string): Manifest =>
  manifest('MCPServer', name, { image: 'a:1', transport: 'streamable-http', ...inGroup, ...spec }, namespace)
const entry = (name: string, spec: object = {}): Manifest => {
  const remote = { remoteUrl: `https://${name}.example/mcp`, transport: 'streamable-http' }
  return manifest('MCPServerEntry', name, { ...remote, ...inGroup, ...spec })
}
const gateway = (spec: object = {}): Manifest =>
  manifest('VirtualMCPServer', 'front', { ...inGroup, incomingAuth: { type: 'anonymous' }, ...spec })
const definition = (name: string, tool: string): Manifest =>
  manifest('VirtualMCPCompositeToolDefinition', name, { name, steps: [{ id: 'one', tool }] })

const has = (members: string) => (front: LiveObject) =>
  (front.status?.discoveredBackends ?? []).map(({ name }: { name: string }) => name).join() === members
const front = (wanted?: (object: LiveObject) => unknown) => stage.until('VirtualMCPServer', 'front', wanted)
const pods = async (wanted: (template: LivePodTemplate) => unknown) =>
  (await stage.until('Deployment', 'front-vmcp', ({ spec }) => wanted(spec.template))).spec.template
const waitForCondition = (type: string, pattern: RegExp | string) =>
  stage.waitForCondition('VirtualMCPServer', 'front', type, pattern)
const waitForConfig = (pattern: RegExp | string) => stage.waitForConfig('front-vmcp', pattern)

test.before(async () => {
  await stage.start()
  stage.plane.apply(buildNamespace('other'))
})
test.after(() => stage.stop())

test('a gateway lists the members of its group as they come and go, of each kind', async () => {
  stage.apply(group(), gateway())
  await waitForCondition('BackendsReady', 'False NoBackends')
  const remote = manifest('MCPRemoteProxy', 'three', { remoteUrl: 'https://c.example/mcp', ...inGroup })
  stage.apply(server('one'), entry('two'), remote)
  assert.is((await front(has('one,three,two'))).status.backendCount, 3)
  await waitForCondition('BackendsReady', 'True AllServed')
  stage.remove('MCPRemoteProxy/three')
  await front(has('one,two'))
  await waitForConfig(/^(?![\s\S]*three)/)
})

test('a group of the same name in another namespace is another group', async () => {
  const elsewhere = { ...group(), metadata: { name: 'tools', namespace: 'other' } }
  stage.apply(elsewhere, server('stranger', {}, 'other'))
  await stage.until('MCPGroup', 'tools', ({ status }) => status?.servers?.join() === 'stranger', 'other')
  await stage.until('MCPGroup', 'tools', ({ status }) => `${status?.servers} ${status?.entries}` === 'one two')
  assert.ok(has('one,two')(await front()))
})

test('a group stays ready even if its servers fail', async () => {
  const readReady = async () => {
    const { status } = await stage.get('MCPGroup', 'tools')
    return [status.phase, status.conditions.find(({ type }) => type === 'Ready')]
  }
  const before = await readReady()
  assert.is(before[0], 'Ready')
  stage.apply(server('one', { podTemplateSpec: { spec: { containers: 'none' } } }))
  await stage.waitForCondition('MCPServer', 'one', 'PodTemplateValid', 'False')
  stage.apply(server('one', { replicas: 0 }))
  await stage.waitForCondition('MCPServer', 'one', 'Ready', 'True Stopped')
  assert.equal(await readReady(), before)
})

test('a member with a broken credential is left out and named, and the gateway serves the others until it is corrected', async () => {
  const bearer = { type: 'bearerToken', bearerToken: { tokenSecretRef: { name: 'token', key: 'k' } } }
  stage.apply(
    manifest('MCPExternalAuthConfig', 'broken', bearer),
    entry('two', { externalAuthConfigRef: { name: 'broken' } }),
  )
  const condition = await waitForCondition('BackendsReady', 'False BackendsLeftOut')
  assert.match(condition, 'MCPServerEntry "two" is left out: MCPExternalAuthConfig "broken": Secret "token" is missing')
  assert.is.not((await front(has('one'))).status.phase, 'Failed')
  await waitForCondition('Valid', 'True')
  await waitForConfig(/^(?![\s\S]*two\.example)/)
  stage.put('Secret', { token: { k: 'v' } })
  await waitForCondition('BackendsReady', 'True AllServed')
  await waitForConfig('two.example')
  const { discoveredBackends } = (await front(has('one,two'))).status
  assert.equal(
    discoveredBackends.map(({ authConfigRef, authType }) => [authConfigRef, authType]),
    [
      [undefined, undefined],
      ['broken', 'bearerToken'],
    ],
  )
})

test('more than one replica without shared storage causes a warning', async () => {
  stage.apply(gateway({ replicas: 2 }))
  await waitForCondition('SessionStorageWarning', 'True MemorySessions: each of 2 replicas keeps its sessions')
  await stage.until('Deployment', 'front-vmcp', ({ spec }) => spec.replicas === 2)
  stage.apply(gateway({ replicas: 1 }))
  await waitForCondition('SessionStorageWarning', /^$/)
  stage.apply(gateway({ replicas: 2 }))
  await waitForCondition('SessionStorageWarning', 'True')
  stage.apply(gateway({ replicas: 2, sessionStorage: { provider: 'redis', address: 'redis:6379' } }))
  await waitForCondition('SessionStorageWarning', /^$/)
  await waitForConfig('redis:6379')
})

test('composite tools follow their definitions: missing, there, changed, wrong', async () => {
  const waitForTools = (text: string) => waitForCondition('CompositeToolsReady', text)
  stage.apply(gateway({ config: { compositeToolRefs: [{ name: 'report' }] } }))
  await waitForTools('VirtualMCPCompositeToolDefinition "report" is left out: it is missing')
  stage.apply(definition('report', 'one_echo'))
  await waitForTools('True AllServed')
  await waitForConfig('tool: one_echo')
  stage.apply(definition('report', 'one_add'))
  await waitForConfig('tool: one_add')
  const condition = '{{.steps.gone.output}}'
  const wrong = { name: 'report', steps: [{ id: 'a', tool: 'one_echo', condition }] }
  stage.apply(manifest('VirtualMCPCompositeToolDefinition', 'report', wrong))
  await waitForTools('"report" is served as it was before: /spec/steps/0/condition')
  await waitForConfig('tool: one_add')
  const waitForVerdict = (verdict: string) =>
    stage.until('VirtualMCPCompositeToolDefinition', 'report', ({ status }) => status.validationStatus === verdict)
  await waitForVerdict('Invalid')
  stage.apply(definition('report', 'one_add'))
  await waitForTools('True AllServed')
  await waitForVerdict('Valid')
})

test('a change of objects that a gateway does not refer to causes no write for it', async () => {
  const since = stage.recordWrites('front', 'front-vmcp', 'vmcp-front', 'front-vmcp-config')
  await waitUntilStill(() => since().length)
  const settled = since().length
  stage.apply(
    definition('other', 'one_echo'),
    manifest('MCPToolConfig', 'other', { toolsFilter: ['a'] }),
    manifest('MCPExternalAuthConfig', 'other', { type: 'unauthenticated' }),
    manifest('MCPServer', 'loner', { image: 'a:1' }),
  )
  stage.put('ConfigMap', { other: { a: 'b' } })
  await stage.until('StatefulSet', 'loner-mcp')
  await waitUntilStill(() => since().length)
  assert.is(since().length, settled, since().join(', '))
  stage.apply(gateway({ config: { compositeToolRefs: [{ name: 'other' }] } }))
  await waitForConfig('name: other')
  await eventually(() => since().length > settled, 'the audit log has a write')
})

test('elicitation steps and audit settings reach the configuration unchanged', async () => {
  const schema = { type: 'object', properties: { ok: { type: 'boolean' } } }
  const ask = { id: 'ask', type: 'elicitation', message: 'Go on?', schema }
  const tools = {
    compositeTools: [{ name: 'careful', steps: [ask, { id: 'do', tool: 'one_echo', dependsOn: ['ask'] }] }],
  }
  const buildAudited = (enabled: boolean) => gateway({ config: { ...tools, audit: { enabled } } })
  stage.apply(buildAudited(true))
  await waitForConfig('type: elicitation')
  await waitForConfig(/^audit:(\n +.*)*\n +enabled: true/m)
  stage.apply(buildAudited(false))
  await waitForConfig(/^(?![\s\S]*enabled: true)/)
  stage.apply(buildAudited(true))
  await waitForConfig(/^audit:(\n +.*)*\n +enabled: true/m)
  stage.apply(gateway({ config: tools }))
  await waitForConfig(/^(?![\s\S]*audit:)/)
})

test('a changed pod template and pull secrets reach the pods; a ServiceAccount is left alone', async () => {
  stage.put('Secret', { pull: { a: 'b' } })
  stage.plane.apply(serviceAccount('edge'))
  const containers = [{ name: 'vmcp', resources: { limits: { memory: '768Mi' } } }]
  const podTemplateSpec = { metadata: { labels: { tier: 'edge' } }, spec: { priorityClassName: 'high', containers } }
  stage.apply(gateway({ serviceAccount: 'edge', imagePullSecrets: [{ name: 'pull' }], podTemplateSpec }))
  const { spec } = await pods(({ metadata }) => metadata.labels.tier === 'edge')
  assert.equal([spec.priorityClassName, spec.serviceAccountName], ['high', 'edge'])
  assert.equal(spec.imagePullSecrets, [{ name: 'pull' }])
  assert.is(spec.containers[0].resources.limits.memory, '768Mi')
  assert.is((await stage.get('ServiceAccount', 'edge')).imagePullSecrets, undefined)
  stage.apply(gateway({ podTemplateSpec: { spec: { priorityClassName: 'low' } } }))
  const changed = await pods((template) => template.spec.priorityClassName === 'low')
  assert.equal([changed.metadata.labels.tier, changed.spec.imagePullSecrets], [undefined, undefined])
})

test('a gateway that is applied before its members creates its pods once', async () => {
  const attempt = async (name: string) => {
    const groupRef = { name }
    const credential = (at: number) =>
      manifest('MCPExternalAuthConfig', `${name}-${at}`, {
        type: 'bearerToken',
        bearerToken: { tokenSecretRef: { name: `${name}-${at}`, key: 'k' } },
      })
    const member = (at: number) =>
      entry(`${name}-${at}`, { groupRef, externalAuthConfigRef: { name: `${name}-${at}` } })
    stage.put('Secret', { [`${name}-1`]: { k: 'v' }, [`${name}-2`]: { k: 'v' } })
    stage.apply(
      manifest('VirtualMCPServer', name, { groupRef, incomingAuth: { type: 'anonymous' } }),
      group(name),
      ...[1, 2].flatMap((at) => [credential(at), member(at)]),
    )
    const mounts = (template: LivePodTemplate) => JSON.stringify(template.spec.volumes).includes(`"${name}-2"`)
    const { metadata } = await stage.until('Deployment', `${name}-vmcp`, ({ spec }) => mounts(spec.template))
    return metadata.generation
  }
  // On a busy machine a member may arrive too late to be reconciled together with the others.
  for (let count = 1; (await attempt(`gathered-${count}`)) !== 1; count++) assert.ok(count < 6, 'made once')
})

test.run()
