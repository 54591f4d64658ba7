import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { crdFor } from '../../crds/index.ts'
import type { SchemaNode } from '../../crds/walk.ts'
import { declarations, isLeaf, specPlaces, statusPlaces } from '../support/operator/crd-schemas.ts'

const spec = declarations.flatMap(specPlaces)
const all = [...spec, ...declarations.flatMap(statusPlaces)]
const pathsWhere = (places: typeof all, wrong: (node: SchemaNode, parent?: SchemaNode) => boolean) =>
  places.filter(({ node, parent }) => wrong(node, parent)).map(({ path }) => path)

test('every schema is structural', () => {
  const forbidden = ['$ref', 'oneOf', 'allOf', 'not', 'const', 'patternProperties', 'exclusiveMinimum', 'nullable']
  const isUntyped = (node: SchemaNode) =>
    !node.type && !node['x-kubernetes-preserve-unknown-fields'] && !node['x-kubernetes-int-or-string']
  assert.equal(pathsWhere(all, isUntyped), [])
  assert.equal(
    pathsWhere(all, (node) => forbidden.some((keyword) => keyword in node)),
    [],
  )
  assert.equal(
    pathsWhere(all, (node) => node.properties !== undefined && typeof node.additionalProperties === 'object'),
    [],
  )
})

test('every field has a description', () => {
  assert.equal(
    pathsWhere(all, (node) => !node.description),
    [],
  )
})

test('every list, map and string is bounded', () => {
  assert.equal(
    pathsWhere(all, (node) => node.type === 'array' && node.maxItems === undefined),
    [],
  )
  assert.equal(
    pathsWhere(all, (node) => typeof node.additionalProperties === 'object' && node.maxProperties === undefined),
    [],
  )
  const isUnbounded = (node: SchemaNode & { format?: string }) =>
    node.type === 'string' && node.maxLength === undefined && !node.enum && node.format !== 'date-time'
  assert.equal(pathsWhere(all, isUnbounded), [])
})

test('every list has a list type, and the keys of a list-type map are there', () => {
  assert.equal(
    pathsWhere(all, (node) => node.type === 'array' && !node['x-kubernetes-list-type']),
    [],
  )
  const keyMissing = (node: SchemaNode) =>
    (node['x-kubernetes-list-map-keys'] ?? []).some((key) => {
      const property = node.items?.properties?.[key]
      return !property || (property.default === undefined && !node.items?.required?.includes(key))
    })
  assert.equal(pathsWhere(all, keyMissing), [])
})

test('every leaf of a spec names its reader', () => {
  assert.equal(
    pathsWhere(spec, (node) => isLeaf(node) && node.readBy === undefined),
    [],
  )
})

test('patterns are anchored and compile with Unicode', () => {
  for (const { path, node } of all) {
    if (node.pattern === undefined) continue
    assert.match(node.pattern, /^\^/, path)
    assert.not.throws(() => new RegExp(node.pattern as string, 'u'), undefined, path)
    assert.not.match(node.pattern, /\(\?[=!<]|\\[1-9]/, `${path}: RE2 has no lookaround and no back references`)
  }
})

test('defaults are valid values', () => {
  for (const { path, node } of all) {
    if (typeof node.default !== 'string') continue
    if (node.pattern) assert.match(node.default, new RegExp(node.pattern, 'u'), path)
    if (node.enum) assert.ok(node.enum.includes(node.default), path)
  }
})

test('a field with a default may be left out', () => {
  // The specification requires the key of a CA bundle although it has a default; here it may be left out.
  const asInTheSpec = /caBundleRef\.configMapRef$/
  for (const { path, node } of spec) {
    if (asInTheSpec.test(path)) continue
    for (const name of node.required ?? []) {
      // `cimd.enabled` is required where the widely used operator requires it.
      if (path.endsWith('.cimd')) continue
      assert.is(node.properties?.[name]?.default, undefined, `${path}.${name}`)
    }
  }
})

test('each rule has a message of one line and is unique in its place', () => {
  for (const { path, node } of all) {
    const rules = node['x-kubernetes-validations'] ?? []
    for (const { rule, message } of rules) {
      assert.ok(message.length > 0 && !message.includes('\n'), path)
      assert.not.match(rule, /\n/, path)
    }
    assert.is(new Set(rules.map(({ rule }) => rule)).size, rules.length, path)
  }
})

test('each definition is smaller than 200 kB', () => {
  for (const declaration of declarations) {
    const size = Buffer.byteLength(JSON.stringify(crdFor(declaration, 'portico.dev')))
    assert.ok(size < 200_000, `${declaration.kind}: ${size} bytes`)
  }
})

test('CRDs contain none of our own keywords', () => {
  for (const declaration of declarations) {
    const json = JSON.stringify(crdFor(declaration, 'portico.dev'))
    assert.not.match(json, /"(readBy|refusedValues|refersTo|~[a-z]+)"/, declaration.kind)
  }
})

test('definitions carry names, category, columns and the status subresource', () => {
  const crd = crdFor(declarations.find(({ kind }) => kind === 'MCPTelemetryConfig') as never, 'example.org')
  assert.is(crd.metadata.name, 'mcptelemetryconfigs.example.org')
  assert.equal(crd.spec.names.shortNames, ['mcpotel'])
  assert.equal(crd.spec.names.categories, ['portico'])
  assert.is(crd.spec.scope, 'Namespaced')
  const [version] = crd.spec.versions
  assert.equal(version?.subresources, { status: {} })
  assert.is(version?.name, 'v1beta1')
  for (const { kind, shortNames } of declarations) assert.is(shortNames.length, 1, kind)
})

test('every status has the standard fields of conditions', () => {
  for (const { kind, status, role } of declarations) {
    const { properties } = status as SchemaNode
    const condition = properties?.['conditions']?.items as SchemaNode
    assert.equal(
      [...(condition.required ?? [])].sort(),
      ['lastTransitionTime', 'message', 'reason', 'status', 'type'],
      kind,
    )
    assert.is(condition.properties?.['type']?.maxLength, 316)
    assert.is(condition.properties?.['reason']?.maxLength, 1024)
    assert.is(condition.properties?.['message']?.maxLength, 32768)
    assert.ok(properties?.['observedGeneration'], kind)
    if (role === 'config') {
      assert.ok(properties?.['configHash'], kind)
      assert.is(properties?.['referencingWorkloads']?.['x-kubernetes-list-type'], 'atomic', kind)
    }
  }
})

/** The fields for SPIFFE that an authorization server at this path does not support. */
const spiffe = (path: string) => [
  `${path}.inboundGrants.spiffeClientAuth[].methods[]=spiffe_x509`,
  `${path}.spiffeTrustDomains[].bundleSource.endpoint.profile=https_spiffe`,
  `${path}.spiffeTrustDomains[].bundleSource.type=workload_api`,
  `${path}.spiffeTrustDomains[].methods[]=spiffe_x509`,
]

test('exactly the fields and values of this list are refused', () => {
  const refused = spec
    .filter(({ node }) => typeof node.readBy === 'object')
    .map(({ path }) =>
      path.replace(
        /\.(obo|codeMode|volumes\[\]|config\.(?:incomingAuth|outgoingAuth|telemetry|metadata|backends))[.[].*$/,
        '.$1',
      ),
    )
  const values = spec.flatMap(({ path, node }) =>
    Object.keys(node.refusedValues ?? {}).map((value) => `${path}=${value}`),
  )
  assert.equal([...new Set([...refused, ...values])].sort(), [
    'MCPAuthzConfig.spec.type=httpv1',
    ...spiffe('MCPExternalAuthConfig.spec.embeddedAuthServer'),
    'MCPExternalAuthConfig.spec.obo',
    'MCPExternalAuthConfig.spec.type=obo',
    'MCPServer.spec.proxyMode=sse',
    'MCPServer.spec.volumes[]',
    'MCPServer.spec.webhookConfigRef.name',
    ...spiffe('VirtualMCPServer.spec.authServerConfig'),
    'VirtualMCPServer.spec.config.backends',
    'VirtualMCPServer.spec.config.codeMode',
    'VirtualMCPServer.spec.config.incomingAuth',
    'VirtualMCPServer.spec.config.metadata',
    'VirtualMCPServer.spec.config.operational.failureHandling.statusReportingInterval',
    'VirtualMCPServer.spec.config.outgoingAuth',
    'VirtualMCPServer.spec.config.telemetry',
    'VirtualMCPServer.spec.embeddingServerRef.name',
  ])
})

test.run()
