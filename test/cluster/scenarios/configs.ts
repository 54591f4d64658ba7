/** The life of every kind of config, and its effect on every kind of workload, on a real API server. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { LiveObject } from '../../support/operator/live-object.ts'
import { CERTIFICATE, group, type Manifest, manifest } from '../support/manifests.ts'
import { newStage } from '../support/stage.ts'

interface Config {
  readonly spec: Manifest['spec']
  /** Another valid spec. */
  readonly changed: Manifest['spec']
}

const permit = (action: string) => `permit(principal, action == Action::"${action}", resource);`

const configs: Readonly<Record<string, Config>> = {
  MCPOIDCConfig: {
    spec: { type: 'inline', inline: { issuer: 'https://idp.example' } },
    changed: { type: 'inline', inline: { issuer: 'https://login.example' } },
  },
  MCPExternalAuthConfig: {
    spec: {
      type: 'headerInjection',
      headerInjection: { headerName: 'X-Key', valueSecretRef: { name: 'key', key: 'k' } },
    },
    changed: { type: 'bearerToken', bearerToken: { tokenSecretRef: { name: 'key', key: 'k' } } },
  },
  MCPAuthzConfig: {
    spec: { type: 'cedarv1', config: { policies: [permit('call_tool')] } },
    changed: { type: 'cedarv1', config: { policies: [permit('get_prompt')] } },
  },
  MCPToolConfig: {
    spec: { toolsFilter: ['echo'] },
    changed: { toolsFilter: ['say'], toolsOverride: { echo: { name: 'say', annotations: { readOnlyHint: true } } } },
  },
  MCPTelemetryConfig: {
    spec: { prometheus: { enabled: false } },
    changed: { prometheus: { enabled: true } },
  },
}
const composite: Config = {
  spec: { name: 'report', steps: [{ id: 'a', tool: 'entry_echo' }] },
  changed: { name: 'report', steps: [{ id: 'a', tool: 'entry_add' }] },
}
const all = Object.keys(configs)

/** Three workloads that name the config `mine` of every kind; `except` kinds are left out. */
function users(...except: readonly string[]): readonly Manifest[] {
  const referTo = (kind: string, reference: object) => (except.includes(kind) ? {} : reference)
  const mine = { name: 'mine' }
  const oidcConfigRef = { ...mine, audience: 'tools' }
  const authz = referTo('MCPAuthzConfig', { authzConfigRef: mine })
  const common = {
    ...referTo('MCPOIDCConfig', { oidcConfigRef }),
    ...referTo('MCPExternalAuthConfig', { externalAuthConfigRef: mine }),
    ...referTo('MCPToolConfig', { toolConfigRef: mine }),
    ...referTo('MCPTelemetryConfig', { telemetryConfigRef: mine }),
    ...authz,
  }
  const { telemetryConfigRef } = common as { telemetryConfigRef?: object }
  const authenticated = except.includes('MCPOIDCConfig') ? { type: 'anonymous' } : { type: 'oidc', oidcConfigRef }
  return [
    manifest('MCPServer', 'user', { image: 'a:1', transport: 'streamable-http', ...common }),
    manifest('MCPRemoteProxy', 'user', { remoteUrl: 'https://mcp.example/mcp', ...common }),
    manifest('VirtualMCPServer', 'user', {
      groupRef: { name: 'tools' },
      incomingAuth: { ...authenticated, ...authz },
      ...referTo('MCPExternalAuthConfig', {
        outgoingAuth: { default: { type: 'externalAuthConfigRef', externalAuthConfigRef: mine } },
      }),
      ...(telemetryConfigRef && { telemetryConfigRef }),
      ...referTo('MCPToolConfig', { config: { aggregation: { tools: [{ workload: 'entry', toolConfigRef: mine }] } } }),
    }),
  ]
}

const workloads = [
  ['MCPRemoteProxy', 'user-mcprp'],
  ['MCPServer', 'user-mcp'],
  ['VirtualMCPServer', 'user-vmcp'],
] as const

const entry = manifest('MCPServerEntry', 'entry', {
  remoteUrl: 'https://entry.example/mcp',
  transport: 'streamable-http',
  groupRef: { name: 'tools' },
})

const stage = newStage()

const buildConfig = (kind: string, { spec }: Config) => manifest(kind, 'mine', spec)
const buildChanged = (kind: string) => manifest(kind, 'mine', (configs[kind] as Config).changed)
const finalizers = async (kind: string) => (await stage.get(kind, 'mine')).metadata.finalizers ?? []
const isNamedBy = (users: string) => (config: LiveObject) =>
  (config.status?.referencingWorkloads ?? []).map((one: { kind: string }) => one.kind).join() === users
const configurations = () => Promise.all(workloads.map(([, child]) => stage.readConfig(child)))

test.before(async () => {
  await stage.start()
  stage.put('Secret', { key: { k: 'v' } })
  stage.apply(group(), entry)
})
test.after(() => stage.stop())

test('a config reports that it is valid and a hash of its spec, and has no finalizer while nobody uses it', async () => {
  const entries = Object.entries({ ...configs, VirtualMCPCompositeToolDefinition: composite })
  stage.apply(...entries.map(([kind, config]) => buildConfig(kind, config)))
  const hashes = new Map<string, string>()
  for (const [kind] of entries) {
    await stage.waitForCondition(kind, 'mine', 'Valid', 'True ConfigValid')
    await stage.waitForCondition(kind, 'mine', 'Ready', 'True Ready')
    const { status } = await stage.until(kind, 'mine', (config) => config.status.observedGeneration === 1)
    assert.match(status.configHash, /^sha256:[0-9a-f]{64}$/)
    hashes.set(kind, status.configHash)
  }
  stage.apply(...entries.map(([kind, { changed }]) => manifest(kind, 'mine', changed)))
  for (const [kind] of entries) {
    const { status, metadata } = await stage.until(kind, 'mine', (config) => config.status.observedGeneration === 2)
    assert.is.not(status.configHash, hashes.get(kind), kind)
    assert.is(metadata.finalizers, undefined, kind)
  }
  for (const [kind] of entries) await stage.plane.removeAndWait(kind, ['mine'])
})

test('a workload reports every missing config, and is served once all exist', async () => {
  stage.apply(...users())
  for (const [kind, child] of workloads) {
    const condition = await stage.waitForCondition(kind, 'user', 'ReferencesResolved', 'False ReferenceNotFound')
    for (const config of all) assert.match(condition, `${config} "mine" is missing`)
    assert.is((await stage.get(kind, 'user')).status.phase, 'Failed')
    assert.is(await stage.find('Deployment', child), undefined)
  }
  stage.apply(...Object.entries(configs).map(([kind, config]) => buildConfig(kind, config)))
  for (const [kind, child] of workloads) {
    await stage.waitForCondition(kind, 'user', 'ReferencesResolved', 'True')
    await stage.until('Deployment', child)
    await stage.until(kind, 'user', ({ status }) => /^sha256:/.test(status.configHash))
  }
  for (const kind of all) {
    await stage.until(kind, 'mine', isNamedBy('MCPRemoteProxy,MCPServer,VirtualMCPServer'))
    assert.equal(await finalizers(kind), ['portico.dev/in-use'], kind)
  }
})

test('a change of a config reaches every workload that refers to it', async () => {
  const expected: Readonly<Record<string, RegExp>> = {
    MCPOIDCConfig: /https:\/\/login\.example/,
    MCPExternalAuthConfig: /name: Authorization\b/,
    MCPAuthzConfig: /get_prompt/,
    MCPToolConfig: /filter:\s+- say\b[\s\S]*echo:[\s\S]*readOnlyHint: true/,
    MCPTelemetryConfig: /prometheus:\s+enabled: true/,
  }
  const hashes = () => Promise.all(workloads.map(async ([kind]) => (await stage.get(kind, 'user')).status.configHash))
  for (const [kind, pattern] of Object.entries(expected)) {
    const before = await hashes()
    stage.apply(buildChanged(kind))
    for (const [at, [workload, child]] of workloads.entries()) {
      await stage.waitForConfig(child, pattern)
      await stage.until(workload, 'user', ({ status }) => status.configHash !== before[at])
    }
  }
})

test('a CA bundle is mounted in every workload, which waits for it', async () => {
  const caBundleRef = { configMapRef: { name: 'idp-ca', key: 'ca.crt' } }
  const before = await configurations()
  stage.apply(
    manifest('MCPOIDCConfig', 'mine', { type: 'inline', inline: { issuer: 'https://login.example', caBundleRef } }),
  )
  const missing = 'ConfigMapNotFound: MCPOIDCConfig "mine": ConfigMap "idp-ca" is missing'
  for (const [kind] of workloads) await stage.waitForCondition(kind, 'user', 'ReferencesResolved', missing)
  assert.equal(await configurations(), before, 'the last good ones')
  stage.put('ConfigMap', { 'idp-ca': { 'ca.crt': CERTIFICATE } })
  for (const [kind, child] of workloads) {
    await stage.waitForCondition(kind, 'user', 'ReferencesResolved', 'True')
    await stage.waitForConfig(child, 'idp-ca')
    await stage.until('Deployment', child, ({ spec }) =>
      spec.template.spec.volumes.some((one) => one.configMap?.name === 'idp-ca'),
    )
  }
})

test('a config that becomes invalid says so, its users keep the last valid one, and get the next valid one', async () => {
  const before = await configurations()
  stage.apply(manifest('MCPAuthzConfig', 'mine', { type: 'httpv1', config: { url: 'https://pdp.example' } }))
  await stage.waitForCondition('MCPAuthzConfig', 'mine', 'Valid', 'False NotSupported')
  for (const [kind] of workloads)
    await stage.waitForCondition(kind, 'user', 'ReferencesResolved', /^False ReferenceInvalid: .*MCPAuthzConfig "mine"/)
  assert.equal(await configurations(), before)
  stage.apply(buildConfig('MCPAuthzConfig', configs['MCPAuthzConfig'] as Config))
  await stage.waitForCondition('MCPAuthzConfig', 'mine', 'Valid', 'True')
  for (const [kind, child] of workloads) {
    await stage.waitForCondition(kind, 'user', 'ReferencesResolved', 'True')
    await stage.waitForConfig(child, 'call_tool')
  }
})

test('a deleted config, valid or not, stays while a workload of any kind refers to it', async () => {
  stage.apply(manifest('MCPAuthzConfig', 'mine', { type: 'httpv1', config: {} }))
  stage.remove(...all.map((kind) => `${kind}/mine`))
  for (const kind of all) {
    const condition = await stage.waitForCondition(kind, 'mine', 'DeletionBlocked', 'True StillReferenced')
    for (const [workload] of workloads) assert.match(condition, `${workload} "user"`)
    await stage.waitForEvents(kind, 'mine', 'DeletionBlocked', 1)
  }
  const [server, proxy, front] = users(...all) as [Manifest, Manifest, Manifest]
  for (const [released, left] of [
    [server, 'MCPRemoteProxy,VirtualMCPServer'],
    [proxy, 'VirtualMCPServer'],
  ] as const) {
    stage.apply(released)
    for (const kind of all) await stage.until(kind, 'mine', isNamedBy(left))
  }
  stage.apply(front)
  for (const kind of all) await stage.waitUntilGone(kind, 'mine')
  for (const [kind, child] of workloads) {
    await stage.waitForCondition(kind, 'user', 'ReferencesResolved', 'True')
    await stage.waitForConfig(child, /^(?![\s\S]*(idp-ca|call_tool|secrets\/key|- say))/)
  }
})

test('an entry keeps its credential from being deleted, and users of a group keep the group', async () => {
  const spec = { ...entry.spec, externalAuthConfigRef: { name: 'mine' } }
  const credential = buildConfig('MCPExternalAuthConfig', configs['MCPExternalAuthConfig'] as Config)
  stage.apply(credential, manifest('MCPServerEntry', 'entry', spec))
  await stage.until('MCPExternalAuthConfig', 'mine', ({ metadata }) => metadata.finalizers?.length === 1)
  stage.remove('MCPExternalAuthConfig/mine', 'MCPGroup/tools')
  await stage.waitForCondition('MCPExternalAuthConfig', 'mine', 'DeletionBlocked', 'MCPServerEntry "entry"')
  const condition = await stage.waitForCondition('MCPGroup', 'tools', 'DeletionBlocked', 'VirtualMCPServer "user"')
  assert.match(condition, 'MCPServerEntry "entry"')
  stage.remove('MCPServerEntry/entry', 'VirtualMCPServer/user')
  await stage.waitUntilGone('MCPExternalAuthConfig', 'mine')
  await stage.waitUntilGone('MCPGroup', 'tools')
})

test.run()
