import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createWorld, type KubernetesObject } from '../../../operator/model/index.ts'
import { addDefaults, context, planWorld } from '../../support/operator/plans.ts'

const make = (kind: string, name: string, spec: object, metadata: object = {}): KubernetesObject =>
  addDefaults({ apiVersion: 'portico.dev/v1beta1', kind, metadata: { name, namespace: 'default', ...metadata }, spec })

/** The fields that each workload requires besides its reference. */
const workloads = {
  MCPServer: { image: 'x', transport: 'streamable-http' },
  MCPRemoteProxy: { remoteUrl: 'https://example.com/mcp' },
  VirtualMCPServer: { groupRef: { name: 'tools' }, incomingAuth: { type: 'anonymous' } },
}

for (const [kind, spec] of Object.entries(workloads)) {
  test(`referencingWorkloads follows a ${kind} that comes, moves, lets go and is deleted`, () => {
    const world = createWorld()
    for (const name of ['one', 'two']) world.objects.put(make('MCPTelemetryConfig', name, {}))
    const refer = (name: string | undefined) =>
      world.objects.put(make(kind, 'it', name === undefined ? spec : { ...spec, telemetryConfigRef: { name } }))
    const listReferrers = (name: string) =>
      planWorld(world).get(`MCPTelemetryConfig/${name}`)?.status['referencingWorkloads']
    const it = [{ kind, name: 'it' }]

    assert.equal(listReferrers('one'), [])
    refer('one')
    assert.equal([listReferrers('one'), listReferrers('two')], [it, []])
    refer('two')
    assert.equal([listReferrers('one'), listReferrers('two')], [[], it])
    refer(undefined)
    assert.equal([listReferrers('one'), listReferrers('two')], [[], []])
    refer('one')
    world.objects.put(
      make(kind, 'it', { ...spec, telemetryConfigRef: { name: 'one' } }, { deletionTimestamp: '2026-11-20T11:00:00Z' }),
    )
    assert.equal(listReferrers('one'), it, 'one under deletion counts until it is gone')
    world.objects.delete(kind, 'default', 'it')
    assert.equal([listReferrers('one'), listReferrers('two')], [[], []])
  })
}

test('referencingWorkloads is sorted by kind, then name, whatever order they came in', () => {
  const world = createWorld()
  world.objects.put(make('MCPTelemetryConfig', 'otel', {}))
  const telemetryConfigRef = { name: 'otel' }
  for (const name of ['b', 'a', 'B'])
    for (const [kind, spec] of Object.entries(workloads).reverse())
      world.objects.put(make(kind, name, { ...spec, telemetryConfigRef }))
  const status = planWorld(world).get('MCPTelemetryConfig/otel')?.status
  const listed = (status?.['referencingWorkloads'] ?? []) as { kind: string; name: string }[]
  assert.equal(
    listed.map(({ kind, name }) => `${kind}/${name}`),
    [
      'MCPRemoteProxy/B',
      'MCPRemoteProxy/a',
      'MCPRemoteProxy/b',
      'MCPServer/B',
      'MCPServer/a',
      'MCPServer/b',
      'VirtualMCPServer/B',
      'VirtualMCPServer/a',
      'VirtualMCPServer/b',
    ],
  )
})

test('an entry that uses a credential is listed and blocks its deletion', () => {
  const world = createWorld()
  world.objects.put(make('MCPExternalAuthConfig', 'x', { type: 'unauthenticated' }))
  const remote = { remoteUrl: 'https://example.com/mcp', transport: 'streamable-http', groupRef: { name: 'g' } }
  world.objects.put(make('MCPServerEntry', 'it', { ...remote, externalAuthConfigRef: { name: 'x' } }))
  const plan = planWorld(world).get('MCPExternalAuthConfig/x')
  assert.is(plan?.finalizer, true)
  assert.equal(plan?.status['referencingWorkloads'], [{ kind: 'MCPServerEntry', name: 'it' }])
})

test('the hash depends on the spec, not on its spelling', () => {
  const world = createWorld()
  const attributes = (spec: object) => {
    world.objects.put(make('MCPTelemetryConfig', 'otel', spec))
    return planWorld(world).get('MCPTelemetryConfig/otel')?.status['configHash'] as string
  }
  const first = attributes({ openTelemetry: { resourceAttributes: { a: '1', b: '2' } } })
  assert.match(first, /^sha256:[0-9a-f]{64}$/)
  assert.is(attributes({ openTelemetry: { resourceAttributes: { b: '2', a: '1' }, enabled: false } }), first)
  assert.is.not(attributes({ openTelemetry: { resourceAttributes: { a: '1', b: '3' } } }), first)
})

test('the time of a hash changes only with the hash, and is absent if unknown', () => {
  const plan = (spec: object, status: object | undefined, now: string) => {
    const world = createWorld()
    world.objects.put({ ...make('MCPToolConfig', 'it', spec), ...(status && { status }) })
    return planWorld(world, { ...context, now }).get('MCPToolConfig/it')?.status
  }
  const first = plan({ toolsFilter: ['a'] }, undefined, '2026-01-01T00:00:00Z')
  assert.is(first?.['configHashTime'], '2026-01-01T00:00:00Z')
  assert.equal(plan({ toolsFilter: ['a'] }, first, '2026-01-02T00:00:00Z'), first)
  const other = plan({ toolsFilter: ['b'] }, first, '2026-01-03T00:00:00Z')
  assert.is(other?.['configHashTime'], '2026-01-03T00:00:00Z')
  const { configHashTime: _, ...untimed } = first as Record<string, unknown>
  assert.equal(plan({ toolsFilter: ['a'] }, untimed, '2026-01-04T00:00:00Z'), untimed)
})

test.run()
