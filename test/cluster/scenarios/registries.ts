/** The life of an MCPRegistry on a real API server. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Manifest, manifest } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'
import { newStage } from '../support/stage.ts'

const stage = newStage()

const FROM_MAP = { name: 'own', file: { configMapRef: { name: 'servers' } } }
const FROM_CLUSTER = { name: 'own', kubernetes: {} }
const FROM_FILE = { name: 'own', file: { path: '/srv/registry.json' } }

const registry = (name: string, source: object, spec: object = {}): Manifest =>
  manifest('MCPRegistry', name, {
    sources: [source],
    registries: [{ name: 'main', sources: ['own'] }],
    auth: { mode: 'anonymous' },
    ...spec,
  })
const waitForCondition = (name: string, type: string, text: string) =>
  stage.waitForCondition('MCPRegistry', name, type, text)

/** Tells whether a ServiceAccount of the namespace has a right. */
const may = (account: string, verb: string, kind: string): boolean =>
  stage.plane.may(`system:serviceaccount:default:${account}`, verb, kind)

test.before(() => stage.start())
test.after(() => stage.stop())

test('several registries of a namespace have their own children, and only the one that reads the cluster has rights', async () => {
  stage.apply(registry('files', FROM_FILE), registry('cluster', FROM_CLUSTER))
  for (const name of ['files', 'cluster']) {
    const { spec } = await stage.until('Deployment', `${name}-mcpreg`)
    assert.is(spec.template.spec.automountServiceAccountToken, false)
    await stage.until('Service', `mcpreg-${name}`)
    await stage.until('MCPRegistry', name, ({ status }) => status.url.startsWith(`http://mcpreg-${name}.default.`))
  }
  await stage.waitForConfig('files-mcpreg', '/srv/registry.json')
  await stage.waitForConfig('cluster-mcpreg', 'kubernetes:')
  await stage.until('RoleBinding', 'cluster-mcpreg')
  for (const kind of ['ServiceAccount', 'Role', 'RoleBinding'])
    assert.is(await stage.find(kind, 'files-mcpreg'), undefined, kind)
  await eventually(() => may('cluster-mcpreg', 'watch', 'mcpservers'), 'the right applies')
  for (const [verb, what] of [
    ['get', 'secrets'],
    ['get', 'configmaps'],
    ['update', 'mcpservers'],
    ['get', 'mcpexternalauthconfigs'],
  ] as const)
    assert.not.ok(may('cluster-mcpreg', verb, what), `${verb} ${what}`)
  stage.apply(registry('cluster', FROM_FILE))
  await stage.waitUntilGone('RoleBinding', 'cluster-mcpreg')
  await eventually(() => !may('cluster-mcpreg', 'watch', 'mcpservers'), 'the right is gone')
})

test('a registry waits for the ConfigMap of its source and says so once', async () => {
  stage.apply(registry('waiting', FROM_MAP))
  await waitForCondition('waiting', 'ReferencesResolved', 'False ConfigMapNotFound: ConfigMap "servers" is missing')
  assert.is(await stage.find('Deployment', 'waiting-mcpreg'), undefined)
  await stage.waitForEvents('MCPRegistry', 'waiting', 'ConfigMapNotFound', 1)
  stage.put('ConfigMap', { servers: { 'registry.json': '{"servers":[]}' } })
  await waitForCondition('waiting', 'ReferencesResolved', 'True')
  const { spec } = await stage.until('Deployment', 'waiting-mcpreg')
  assert.ok(spec.template.spec.volumes.some(({ configMap }) => configMap?.name === 'servers'))
})

test('an invalid configuration is reported with its line, and such a registry can be deleted at once', async () => {
  const configYAML = 'sources:\n  - {name: own}\nregistries: []\nauth: {mode: anonymous}\n'
  stage.apply(manifest('MCPRegistry', 'broken', { configYAML }))
  await waitForCondition('broken', 'Valid', 'False ConfigInvalid: /spec/configYAML, line 2')
  assert.is((await stage.get('MCPRegistry', 'broken')).status.phase, 'Failed')
  await stage.plane.removeAndWait('mcpreg', ['broken'])
})

test('pull secrets and a pod template reach the pods, and a store inside the pod has one replica', async () => {
  stage.put('Secret', { pull: { a: 'b' } })
  const podTemplateSpec = { spec: { nodeSelector: { disk: 'ssd' } } }
  stage.apply(registry('files', FROM_FILE, { imagePullSecrets: [{ name: 'pull' }], podTemplateSpec }))
  const { spec } = await stage.until('Deployment', 'files-mcpreg', (one) => one.spec.template.spec.nodeSelector)
  assert.equal([spec.template.spec.imagePullSecrets, spec.strategy.type], [[{ name: 'pull' }], 'Recreate'])
  stage.apply(registry('files', FROM_FILE, { replicas: 2 }))
  await waitForCondition(
    'files',
    'Valid',
    'False ConfigInvalid: /spec/replicas: a registry with its store in the pod can have one replica only',
  )
  assert.is((await stage.get('Deployment', 'files-mcpreg')).spec.replicas, 1)
})

test.run()
