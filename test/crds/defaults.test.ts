import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  applyDefaults,
  mcpGroup,
  mcpServer,
  mcpTelemetryConfig,
  validateObject,
  virtualMcpServer,
} from '../../crds/index.ts'

const telemetry = (spec: object) => (applyDefaults(mcpTelemetryConfig, { spec }) as { spec: object }).spec

test('defaults are filled in', () => {
  const { spec } = applyDefaults(mcpServer, { spec: { image: 'x' } })
  assert.equal(spec, {
    image: 'x',
    transport: 'stdio',
    proxyMode: 'streamable-http',
    proxyPort: 8080,
    trustProxyHeaders: false,
    serviceType: 'ClusterIP',
    sessionAffinity: 'ClientIP',
  })
})

test('defaults inside an object count only where it is there', () => {
  assert.equal(telemetry({}), {})
  assert.equal(telemetry({ openTelemetry: { tracing: {}, caBundleRef: { configMapRef: {} } } }), {
    openTelemetry: {
      enabled: false,
      insecure: false,
      useLegacyAttributes: true,
      tracing: { enabled: false, samplingRate: '0.05' },
      caBundleRef: { configMapRef: { key: 'ca.crt', name: '' } },
    },
  })
})

test('a null is dropped, or replaced by the default', () => {
  assert.equal(telemetry({ prometheus: { enabled: null }, openTelemetry: null }), { prometheus: { enabled: false } })
})

test('given values are kept, and the object itself is not changed', () => {
  const object = { spec: { image: 'x', transport: 'sse', podTemplateSpec: { a: null }, other: [1] } }
  const before = structuredClone(object)
  const result = applyDefaults(mcpServer, object)
  assert.equal(object, before)
  assert.is((result.spec as { transport: string }).transport, 'sse')
  assert.equal((result.spec as unknown as typeof object.spec).podTemplateSpec, { a: null })
  assert.equal((result.spec as unknown as typeof object.spec).other, [1])
})

test('items of lists and values of maps get defaults', () => {
  const spec = {
    groupRef: { name: 'a' },
    incomingAuth: { type: 'anonymous' },
    config: { operational: { timeouts: {} }, backends: [], audit: {} },
    outgoingAuth: { backends: { a: { type: 'discovered' } } },
  }
  const { config, outgoingAuth } = applyDefaults(virtualMcpServer, { spec }).spec as never as {
    config: { operational: { timeouts: object }; audit: { maxDataSize: number } }
    outgoingAuth: { source: string }
  }
  assert.equal(config.operational.timeouts, { default: '30s' })
  assert.is(config.audit.maxDataSize, 1024)
  assert.is(outgoingAuth.source, 'discovered')
})

test('applying defaults twice is the same as once', () => {
  const once = applyDefaults(mcpServer, { spec: { image: 'x', authServerRef: { name: 'a' } } })
  assert.equal(applyDefaults(mcpServer, once), once)
})

test('a group without a spec is valid, and gets an empty one', () => {
  const group = { apiVersion: 'portico.dev/v1beta1', kind: 'MCPGroup', metadata: { name: 'g' } }
  assert.equal(validateObject(group, 'portico.dev'), [])
  assert.equal((applyDefaults(mcpGroup, group) as { spec?: unknown }).spec, {})
  const registry = { ...group, kind: 'MCPRegistry' }
  assert.equal(
    validateObject(registry, 'portico.dev').map(({ pointer }) => pointer),
    ['/spec'],
  )
})

test.run()
