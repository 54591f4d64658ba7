import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { findKind, kinds } from '../../crds/index.ts'

const CORE = ['Secret', 'ConfigMap']

/** Returns the names in a spec, by kind. */
function listReferences(kind: string, spec: unknown): Record<string, readonly string[]> {
  const declaration = findKind(kind)
  if (!declaration) throw new Error(`no kind ${kind}`)
  const found = Object.groupBy(declaration.references.find(spec), (reference) => reference.kind)
  return Object.fromEntries(
    Object.entries(found).map(([of, references = []]) => [of, [...new Set(references.map(({ name }) => name))].sort()]),
  )
}

test('a reference names one of our kinds, a Secret or a ConfigMap', () => {
  for (const { kind, references } of Object.values(kinds)) {
    for (const kindName of references.kinds())
      assert.ok(findKind(kindName) ?? CORE.includes(kindName), `${kind} -> ${kindName}`)
  }
})

test('all three workloads name their telemetry', () => {
  for (const kind of ['MCPServer', 'MCPRemoteProxy', 'VirtualMCPServer']) {
    assert.equal(listReferences(kind, { telemetryConfigRef: { name: 'otel' } }), { MCPTelemetryConfig: ['otel'] }, kind)
  }
})

test('references of a gateway, in any of its fields', () => {
  const ref = (name: string) => ({ name })
  const spec = {
    groupRef: ref('tools'),
    incomingAuth: { oidcConfigRef: ref('idp'), authzConfigRef: ref('policies') },
    outgoingAuth: {
      default: { externalAuthConfigRef: ref('b') },
      backends: { x: { externalAuthConfigRef: ref('a') }, y: { externalAuthConfigRef: ref('b') } },
    },
    config: {
      aggregation: { tools: [{ workload: 'x', toolConfigRef: ref('filter') }] },
      compositeToolRefs: [ref('flow')],
    },
    authServerConfig: { signingKeySecretRefs: [{ name: 'keys', key: 'a' }] },
    imagePullSecrets: [ref('pull')],
    embeddingServerRef: ref('not-looked-up'),
  }
  assert.equal(listReferences('VirtualMCPServer', spec), {
    MCPGroup: ['tools'],
    MCPOIDCConfig: ['idp'],
    MCPAuthzConfig: ['policies'],
    MCPExternalAuthConfig: ['a', 'b'],
    MCPToolConfig: ['filter'],
    VirtualMCPCompositeToolDefinition: ['flow'],
    Secret: ['keys', 'pull'],
  })
})

test('Secrets and ConfigMaps of a server', () => {
  const spec = {
    secrets: [{ name: 's', key: 'k' }],
    authServerRef: { name: 'as' },
    externalAuthConfigRef: { name: 'auth' },
    authzConfig: { configMap: { name: 'policies' } },
  }
  assert.equal(listReferences('MCPServer', spec), {
    MCPExternalAuthConfig: ['as', 'auth'],
    ConfigMap: ['policies'],
    Secret: ['s'],
  })
})

test('an empty name is not a reference', () => {
  const spec = { openTelemetry: { caBundleRef: { configMapRef: { key: 'ca.crt', name: '' } } } }
  assert.equal(listReferences('MCPTelemetryConfig', spec), {})
})

test('invalid specs cause no exception', () => {
  for (const kind of Object.keys(kinds)) {
    for (const spec of [undefined, null, 3, [], { config: 3, secrets: {}, groupRef: null }]) {
      assert.equal(listReferences(kind, spec), {}, kind)
    }
  }
})

test.run()
