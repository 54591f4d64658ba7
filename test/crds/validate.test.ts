import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { kinds, validateObject, validateStatus } from '../../crds/index.ts'
import { celValue } from '../../crds/validate.ts'

const server = (spec: unknown, more: object = {}) => ({
  apiVersion: 'portico.dev/v1beta1',
  kind: 'MCPServer',
  metadata: { name: 'tools', namespace: 'default' },
  spec,
  ...more,
})

test('a valid object has no findings', () => {
  assert.equal(validateObject(server({ image: 'x' }), 'portico.dev'), [])
  assert.equal(validateObject(server({ image: 'x' }, { apiVersion: 'example.org/v1beta1' }), 'example.org'), [])
})

test('the group and the version are checked', () => {
  const findings = validateObject(server({ image: 'x' }), 'example.org')
  assert.equal(findings, [{ pointer: '/apiVersion', message: 'must be example.org/v1beta1' }])
})

test('an unknown kind is named, with the kind that may be meant', () => {
  assert.equal(validateObject({ kind: 'MCPSever' }, 'portico.dev'), [
    { pointer: '/kind', message: 'unknown kind; did you mean MCPServer?' },
  ])
  assert.equal(validateObject({ kind: 'toString' }, 'portico.dev')[0]?.pointer, '/kind')
  assert.equal(validateObject({}, 'portico.dev')[0]?.pointer, '/kind')
})

test('invalid input of any type gives findings, never an exception', () => {
  for (const object of [
    undefined,
    null,
    3,
    'x',
    [],
    {},
    { kind: [] },
    server(null),
    server(3),
    server([]),
    server({ image: null }),
  ]) {
    assert.ok(validateObject(object, 'portico.dev').length > 0)
  }
})

test('findings are complete and sorted by pointer', () => {
  const spec = {
    image: 3,
    transport: 'http',
    env: [
      { name: 'A', value: 'a' },
      { name: 'A', value: 'b' },
    ],
    foo: 1,
  }
  const findings = validateObject(server(spec, { extra: 1 }), 'portico.dev')
  assert.equal(
    findings.map(({ pointer }) => pointer),
    ['/extra', '/spec/env/1', '/spec/foo', '/spec/image', '/spec/transport'],
  )
})

test('an unknown field does not hide broken rules, a wrong type hides only those of its parents', () => {
  const config = { aggregation: { conflictResolution: 'priority', nope: 1 }, operational: { logLevel: 3 } }
  const gateway = { groupRef: { name: 'a' }, incomingAuth: { type: 'oidc' }, config }
  const findings = validateObject(server(gateway, { kind: 'VirtualMCPServer' }), 'portico.dev')
  assert.equal(
    findings.map(({ pointer }) => pointer),
    [
      '/spec/config/aggregation',
      '/spec/config/aggregation/nope',
      '/spec/config/operational/logLevel',
      '/spec/incomingAuth',
    ],
  )
})

test('a pointer escapes special characters of keys', () => {
  const spec = { image: 'x', resourceOverrides: { proxyService: { labels: { 'a/b~c': 3 } } } }
  assert.is(
    validateObject(server(spec), 'portico.dev')[0]?.pointer,
    '/spec/resourceOverrides/proxyService/labels/a~1b~0c',
  )
})

test('no finding repeats a value', () => {
  const spec = {
    image: 'x',
    env: [{ name: 'A', value: 'x', secret: 'hunter2' }],
    transport: 'hunter2',
    resources: { limits: { cpu: 'hunter2' } },
  }
  const findings = validateObject(server(spec), 'portico.dev')
  assert.is(findings.length, 3)
  assert.not.match(JSON.stringify(findings), /hunter2/)
})

test('an object with the names of prototypes is an object', () => {
  const spec = JSON.parse('{"image": "x", "__proto__": {"polluted": true}}')
  assert.equal(
    validateObject(server(spec), 'portico.dev').map(({ pointer }) => pointer),
    ['/spec/__proto__'],
  )
  assert.is(({} as { polluted?: boolean }).polluted, undefined)
})

test('a status is checked against its schema', () => {
  const condition = {
    type: 'Ready',
    status: 'True',
    reason: 'Ready',
    message: '',
    lastTransitionTime: '2026-11-20T12:00:00Z',
    observedGeneration: 1,
  }
  const { MCPTelemetryConfig } = kinds
  const status = {
    conditions: [condition],
    observedGeneration: 1,
    configHash: 'sha256:abc',
    referencingWorkloads: [{ kind: 'MCPServer', name: 'a' }],
  }
  assert.equal(validateStatus(MCPTelemetryConfig, status), [])
  const wrong = {
    conditions: [condition, { ...condition, status: 'Maybe', reason: '' }],
    referencingWorkloads: [{ kind: 'MCPRegistry', name: '' }],
    other: 1,
  }
  assert.equal(
    validateStatus(MCPTelemetryConfig, wrong).map(({ pointer }) => pointer),
    [
      '/status/conditions/1',
      '/status/conditions/1/reason',
      '/status/conditions/1/status',
      '/status/other',
      '/status/referencingWorkloads/0/kind',
      '/status/referencingWorkloads/0/name',
    ],
  )
})

test('numbers are integers for CEL where the schema says so', () => {
  assert.is(celValue({ type: 'integer' }, 3), 3n)
  assert.is(celValue({ type: 'number' }, 3), 3)
  assert.equal(celValue({ type: 'object' }, { a: [1] }), new Map([['a', [1n]]]))
})

test.run()
