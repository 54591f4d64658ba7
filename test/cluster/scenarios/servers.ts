/** The life of an MCPServer on a real API server: the pods, and which changes replace them. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { LivePodTemplate } from '../../support/operator/live-object.ts'
import { unwrap } from '../../support/unwrap.ts'
import { serviceAccount as buildServiceAccount, group, type Manifest, manifest } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'
import { newStage } from '../support/stage.ts'
import { waitUntilStill } from '../support/stands-still.ts'

const stage = newStage()

const server = (name: string, spec: object = {}): Manifest =>
  manifest('MCPServer', name, { image: 'everything:1', transport: 'streamable-http', ...spec })

/** Waits until the template of a server's pods is as wanted, and returns it. */
async function pods(
  name: string,
  wanted: (template: LivePodTemplate) => unknown = () => true,
): Promise<LivePodTemplate> {
  const deployment = await stage.until('Deployment', `${name}-mcp`, ({ spec }) => wanted(spec.template))
  return deployment.spec.template
}
const container = ({ spec: { containers, initContainers } }: LivePodTemplate, wanted: string) =>
  unwrap([...containers, ...initContainers].find(({ name }) => name === wanted))

test.before(() => stage.start())
test.after(() => stage.stop())

test('a server waits for its group and is served once that exists, in either order', async () => {
  stage.apply(server('early', { groupRef: { name: 'late' } }))
  await stage.waitForCondition(
    'MCPServer',
    'early',
    'ReferencesResolved',
    'False ReferenceNotFound: MCPGroup "late" is missing',
  )
  stage.apply(group('late'))
  await stage.waitForCondition('MCPServer', 'early', 'ReferencesResolved', 'True')
  await pods('early')
  await stage.until('MCPGroup', 'late', ({ status }) => status?.servers?.join() === 'early')
})

test('an invalid pod template is reported once and creates no pods; a corrected one does', async () => {
  const wrong = { spec: { containers: [{ name: 'mcp', resources: { limits: { memory: 'much' } } }] } }
  stage.apply(server('shaped', { podTemplateSpec: wrong }))
  const condition = await stage.waitForCondition(
    'MCPServer',
    'shaped',
    'PodTemplateValid',
    'False InvalidPodTemplateSpec',
  )
  assert.match(condition, 'memory')
  assert.is((await stage.get('MCPServer', 'shaped')).status.phase, 'Failed')
  assert.is(await stage.find('Deployment', 'shaped-mcp'), undefined)
  await stage.waitForEvents('MCPServer', 'shaped', 'InvalidPodTemplateSpec', 1)

  const mcp = {
    name: 'mcp',
    resources: { limits: { memory: '1024Mi' } },
    securityContext: { runAsUser: 1234 },
    env: [{ name: 'MODE', value: 'fast' }],
  }
  const tolerations = [{ key: 'gpu', operator: 'Exists' }]
  const podTemplateSpec = {
    metadata: { annotations: { 'example.com/team': 'tools' }, labels: { team: 'tools' } },
    spec: { nodeSelector: { disk: 'ssd' }, tolerations, containers: [mcp] },
  }
  stage.apply(server('shaped', { podTemplateSpec, args: ['--http'] }))
  await stage.waitForCondition('MCPServer', 'shaped', 'PodTemplateValid', 'True')
  const template = await pods('shaped')
  assert.equal([template.spec.nodeSelector, template.spec.tolerations], [{ disk: 'ssd' }, tolerations])
  const { resources, securityContext, args, env } = container(template, 'mcp')
  assert.equal([resources.limits.memory, securityContext.runAsUser, args], ['1Gi', 1234, ['--http']])
  assert.is(securityContext.allowPrivilegeEscalation, false, 'fields that it does not set stay')
  assert.ok(env.some(({ name }) => name === 'MODE'))
  const pod = await eventually(() => stage.podsWith('team=tools')[0], 'a pod')
  assert.is(pod.metadata.annotations['example.com/team'], 'tools')
  await stage.waitForEvents('MCPServer', 'shaped', 'InvalidPodTemplateSpec', 1)
})

test('fields that a pod template adds are not reverted, and fields that it drops are removed', async () => {
  const since = stage.recordWrites('shaped-mcp')
  await waitUntilStill(() => since().length)
  const settled = since().length
  stage.plane.mergePatch('mcpserver', 'shaped', { metadata: { labels: { looked: 'at' } } })
  await waitUntilStill(() => since().length)
  assert.is(since().length, settled, since().join(', '))
  stage.apply(server('shaped', { args: ['--http'] }))
  const template = await pods('shaped', ({ spec }) => spec.nodeSelector === undefined)
  assert.not.ok(container(template, 'mcp').env?.some(({ name }) => name === 'MODE'))
  await eventually(() => since().length > settled, 'the audit log has a write')
})

test('pods are replaced for another image, other pull secrets and a changed Secret, and for nothing else', async () => {
  stage.put('Secret', { token: { key: 'one' }, pull: { a: 'b' }, mirror: { a: 'b' } })
  const spec: Record<string, unknown> = { secrets: [{ name: 'token', key: 'key', targetEnvName: 'TOKEN' }] }
  const applyAndWait = async (more: object, wanted: (template: LivePodTemplate) => unknown) => {
    stage.apply(server('rolled', Object.assign(spec, more)))
    return await pods('rolled', wanted)
  }
  const hasPullSecrets = (names: string) => (template: LivePodTemplate) =>
    (template.spec.imagePullSecrets ?? []).map(({ name }) => name).join() === names
  const hash = ({ metadata }: LivePodTemplate) => metadata.annotations['portico.dev/template-hash']
  await applyAndWait({ imagePullSecrets: [{ name: 'pull' }] }, hasPullSecrets('pull'))
  const proxyDeployment = { imagePullSecrets: [{ name: 'mirror' }] }
  await applyAndWait({ resourceOverrides: { proxyDeployment } }, hasPullSecrets('pull,mirror'))
  await applyAndWait({ imagePullSecrets: undefined }, hasPullSecrets('mirror'))
  const before = await applyAndWait({ image: 'everything:2' }, (one) => container(one, 'mcp').image === 'everything:2')
  stage.put('Secret', { token: { key: 'two' } })
  const settled = await pods('rolled', (template) => hash(template) !== hash(before))

  stage.apply(server('rolled', { ...spec, groupRef: { name: 'late' }, replicas: 2, audit: { enabled: true } }))
  await stage.until('Deployment', 'rolled-mcp', (deployment) => deployment.spec.replicas === 2)
  await stage.waitForConfig('rolled-mcp', 'audit:')
  assert.equal(await pods('rolled'), settled)
})

test('a server that is scaled to zero reports that it is stopped', async () => {
  stage.apply(server('rolled', { replicas: 0 }))
  await stage.waitForCondition('MCPServer', 'rolled', 'Ready', 'True Stopped: scaled to zero')
  await stage.until('MCPServer', 'rolled', ({ status }) => status.phase === 'Stopped')
  stage.apply(server('rolled', { replicas: 1 }))
  await stage.waitForCondition('MCPServer', 'rolled', 'Ready', 'False Progressing')
  await stage.until('Deployment', 'rolled-mcp', ({ spec }) => spec.replicas === 1)
})

test('a ServiceAccount of the user is used and none is created, for each transport; deleted pods are recreated', async () => {
  stage.plane.apply(buildServiceAccount('tools'))
  const serviceAccount = 'tools'
  stage.apply(
    server('plain', { serviceAccount }),
    server('events', { serviceAccount, transport: 'sse', mcpPort: 9000 }),
    server('piped', { serviceAccount, transport: 'stdio' }),
  )
  for (const name of ['plain', 'events']) {
    assert.is((await pods(name)).spec.serviceAccountName, 'tools')
    for (const kind of ['ServiceAccount', 'Role', 'RoleBinding'])
      assert.is(await stage.find(kind, `${name}-mcp`), undefined, kind)
  }
  assert.match(await stage.readConfig('events-mcp'), 'url: http://127.0.0.1:9000/sse')
  const ports = container(await pods('events'), 'mcp').ports.map(({ containerPort }) => containerPort)
  assert.equal(ports, [9000])
  const { subjects } = await stage.until('RoleBinding', 'piped-mcp')
  assert.equal(
    subjects.map(({ kind, name }) => `${kind} ${name}`),
    ['ServiceAccount tools'],
  )
  const { spec, metadata } = await stage.get('StatefulSet', 'piped-mcp')
  assert.is(spec.template.spec.serviceAccountName, 'tools')
  assert.is(await stage.find('ServiceAccount', 'piped-mcp'), undefined)
  stage.remove('StatefulSet/piped-mcp')
  await stage.until('StatefulSet', 'piped-mcp', (one) => one.metadata.uid !== metadata.uid)
})

test('fields that another manager sets in the spec, and annotations of the Service, are kept', async () => {
  const policies = ['permit(principal, action, resource);']
  const { apiVersion, kind, metadata } = server('shared')
  const theirs = { apiVersion, kind, metadata, spec: { authzConfig: { type: 'inline', inline: { policies } } } }
  stage.apply(server('shared'))
  await stage.until('Service', 'mcp-shared')
  stage.plane.applyOnServer([theirs], { manager: 'policies' })
  const annotations = { 'cloud.example/balancer': 'lb-1' }
  stage.plane.mergePatch('service', 'mcp-shared', { metadata: { annotations } })
  await stage.waitForConfig('shared-mcp', 'permit(')
  stage.apply(server('shared', { proxyPort: 9090 }))
  const service = await stage.until('Service', 'mcp-shared', ({ spec }) => spec.ports[0].port === 9090)
  assert.is(service.metadata.annotations['cloud.example/balancer'], 'lb-1')
  const { spec } = await stage.until('MCPServer', 'shared', ({ status }) => status.url.endsWith(':9090/mcp'))
  assert.equal(spec.authzConfig.inline.policies, policies)
})

test('an authorization server comes by exactly one of two references, and must have the right type', async () => {
  const issuer = 'https://tools.example'
  const oidcConfig = { issuerUrl: 'https://idp.example', clientId: 'a' }
  const embeddedAuthServer = { issuer, upstreamProviders: [{ name: 'corp', type: 'oidc', oidcConfig }] }
  stage.apply(
    manifest('MCPOIDCConfig', 'own', { type: 'inline', inline: { issuer } }),
    manifest('MCPExternalAuthConfig', 'login', { type: 'embeddedAuthServer', embeddedAuthServer }),
    manifest('MCPExternalAuthConfig', 'open', { type: 'unauthenticated' }),
  )
  const login = { name: 'login' }
  const buildGuarded = (references: object) =>
    server('guarded', { oidcConfigRef: { name: 'own', audience: `${issuer}/mcp` }, ...references })
  stage.apply(buildGuarded({ authServerRef: login }))
  await stage.waitForCondition('MCPServer', 'guarded', 'Valid', 'True')
  await stage.waitForConfig('guarded-mcp', 'authServer:')
  stage.apply(buildGuarded({ authServerRef: login, externalAuthConfigRef: login }))
  await stage.waitForCondition(
    'MCPServer',
    'guarded',
    'Valid',
    'set only one of authServerRef and externalAuthConfigRef',
  )
  stage.apply(buildGuarded({ authServerRef: { name: 'open' } }))
  await stage.waitForCondition('MCPServer', 'guarded', 'Valid', 'is of type unauthenticated, not embeddedAuthServer')
  assert.match(await stage.readConfig('guarded-mcp'), 'authServer:', 'the running pods stay')
  stage.apply(buildGuarded({ externalAuthConfigRef: login }))
  await stage.waitForCondition('MCPServer', 'guarded', 'Valid', 'True')
  await stage.waitForConfig('guarded-mcp', 'providerName: corp')
})

test.run()
