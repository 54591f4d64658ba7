import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { findKind, mcpGroup, unsupportedFields } from '../../crds/index.ts'
import { map, object, text } from '../../crds/settings/schema.ts'
import { declarations, isLeaf, specPlaces } from '../support/operator/crd-schemas.ts'

const listUnsupported = (kind: string, spec: object) => {
  const declaration = findKind(kind)
  if (!declaration) throw new Error(`no kind ${kind}`)
  return Object.fromEntries(unsupportedFields(declaration, { spec }).map(({ pointer, reason }) => [pointer, reason]))
}

const server = { image: 'x', transport: 'streamable-http' }
const gateway = { groupRef: { name: 'a' }, incomingAuth: { type: 'anonymous' } }

test('a plain object has nothing unsupported', () => {
  assert.equal(listUnsupported('MCPServer', server), {})
  assert.equal(listUnsupported('VirtualMCPServer', gateway), {})
  assert.equal(listUnsupported('MCPRemoteProxy', { remoteUrl: 'https://a.example' }), {})
  assert.equal(listUnsupported('MCPGroup', {}), {})
})

/** The reason for refusing parts of the schemas below. */
const REFUSED = { refused: 'by nobody' } as const

test('a refused value and a refused part carry their reason', () => {
  const found = listUnsupported('MCPServer', {
    ...server,
    proxyMode: 'sse',
    volumes: [{ name: 'a', hostPath: '/', mountPath: '/m' }],
  })
  assert.equal(Object.keys(found), ['/spec/proxyMode', '/spec/volumes'])
  assert.match(found['/spec/proxyMode'] ?? '', /streamable-http/)
  assert.match(found['/spec/volumes'] ?? '', /podTemplateSpec/)
})

test('parts of a gateway’s own file are refused with the field to use instead', () => {
  const found = listUnsupported('VirtualMCPServer', {
    ...gateway,
    config: {
      incomingAuth: { type: 'anonymous' },
      outgoingAuth: { source: 'inline', default: { type: 'unauthenticated' } },
      telemetry: { endpoint: 'https://otel.example', tracingEnabled: true },
      metadata: { team: 'a' },
      backends: [{ name: 'a', url: 'https://a.example/mcp', transport: 'sse' }],
      operational: { failureHandling: { statusReportingInterval: '10s' } },
    },
  })
  const at = '/spec/config'
  const instead = {
    [`${at}/incomingAuth`]: /spec\.incomingAuth/,
    [`${at}/outgoingAuth`]: /spec\.outgoingAuth/,
    [`${at}/telemetry`]: /telemetryConfigRef/,
    [`${at}/metadata`]: /annotations/,
    [`${at}/backends`]: /MCPServerEntry/,
    [`${at}/operational/failureHandling/statusReportingInterval`]: /leave it out/,
  }
  assert.equal(Object.keys(found).sort(), Object.keys(instead).sort())
  for (const [pointer, text] of Object.entries(instead)) assert.match(found[pointer] ?? '', text)
})

test('a block that is refused as a whole is one finding', () => {
  const parts = object('One.', { one: text(REFUSED, 'Refused.'), two: text(REFUSED, 'Refused.') })
  const declaration = { ...mcpGroup, spec: object('All.', { parts }) }
  assert.equal(unsupportedFields(declaration, { spec: { parts: { one: 'x', two: 'y' } } }), [
    { pointer: '/spec/parts', reason: REFUSED.refused },
  ])
})

test('fields that equal their default or are empty count as unset', () => {
  assert.equal(
    listUnsupported('MCPServer', { ...server, audit: { enabled: false }, trustProxyHeaders: false, volumes: [] }),
    {},
  )
  assert.equal(listUnsupported('VirtualMCPServer', { ...gateway, config: { codeMode: { enabled: false } } }), {})
})

test('the presence of an empty block can be a setting', () => {
  const parts = object('One.', { one: object('Set by being there.', {}, { readBy: REFUSED }) })
  assert.equal(unsupportedFields({ ...mcpGroup, spec: parts }, { spec: { one: {} } }), [
    { pointer: '/spec/one', reason: REFUSED.refused },
  ])
  assert.equal(listUnsupported('VirtualMCPServer', { ...gateway, config: { optimizer: {} } }), {})
})

test('names in a map are part of the pointer, escaped', () => {
  const parts = object('One.', { now: text('operator', 'Read.'), refused: text(REFUSED, 'Refused.') })
  const declaration = { ...mcpGroup, spec: object('All.', { parts: map('By name.', parts) }) }
  const spec = { parts: { 'a/b': { now: 'x', refused: 'y' } } }
  assert.equal(unsupportedFields(declaration, { spec }), [
    { pointer: '/spec/parts/a~1b/refused', reason: REFUSED.refused },
  ])
})

test('a reference to telemetry is supported by all three workloads', () => {
  const telemetryConfigRef = { name: 'otel', serviceName: 'tools' }
  assert.equal(listUnsupported('MCPServer', { ...server, telemetryConfigRef }), {})
  assert.equal(listUnsupported('VirtualMCPServer', { ...gateway, telemetryConfigRef }), {})
  assert.equal(listUnsupported('MCPRemoteProxy', { remoteUrl: 'https://a.example', telemetryConfigRef }), {})
})

test('invalid objects cause no exception', () => {
  for (const { kind } of declarations) {
    for (const spec of [null, 3, 'x', [], { image: [], config: 'x', sources: {}, steps: [null] }])
      listUnsupported(kind, spec as object)
  }
})

test('each refused field is found when it is set', () => {
  // Each leaf alone, in an object that contains only the path to it.
  for (const declaration of declarations) {
    for (const { path, node } of specPlaces(declaration)) {
      if (!isLeaf(node) || typeof node.readBy !== 'object') continue
      const steps = path
        .split('.')
        .slice(2)
        .flatMap((step) => step.replaceAll('[]', '\0[]').split('\0'))
      const value: unknown =
        node.enum?.[0] ?? (node.type === 'boolean' ? node.default !== true : node.type === 'string' ? 'x~x' : 7)
      const spec = steps.reduceRight<unknown>(
        (inner, step) => (step === '[]' ? [inner] : { [step === '*' ? 'k' : step]: inner }),
        value,
      )
      if (node.enum && node.default === value) continue
      assert.ok(unsupportedFields(declaration, { spec }).length > 0, path)
    }
  }
})

test.run()
