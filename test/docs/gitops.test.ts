/** Runs the health check of docs/gitops.md in a real Lua, and compares it with what kstatus reports for the same objects. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse, parseAllDocuments } from 'yaml'
import { kinds } from '../../crds/index.ts'
import { values } from '../../operator/deploy/values.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { planAll } from '../../operator/reconcile/index.ts'
import { buildWorld, context } from '../support/operator/plans.ts'

const root = join(import.meta.dirname, '../..')
const documents = [...readFileSync(join(root, 'docs/gitops.md'), 'utf8').matchAll(/^```yaml\n(.*?)^```/gms)].flatMap(
  ([, text = '']) => parseAllDocuments(text).map((document) => document.toJS()),
)
const ofKind = (kind: string) => documents.find((document) => document.kind === kind)
const script: string = parse(ofKind('ConfigMap').data['resource.customizations'])['portico.dev/*']['health.lua']

/** Writes a JSON value as a Lua literal. */
function toLua(value: unknown): string {
  if (value === null || value === undefined) return 'nil'
  if (Array.isArray(value)) return `{${value.map(toLua).join(', ')}}`
  if (typeof value === 'object')
    return `{${Object.entries(value)
      .map(([key, part]) => `[${toLua(key)}] = ${toLua(part)}`)
      .join(', ')}}`
  return typeof value === 'string'
    ? `"${[...Buffer.from(value)].map((byte) => `\\${String(byte).padStart(3, '0')}`).join('')}"`
    : String(value)
}

/** Returns the health of each object, in order, from one run of Lua. */
function readHealth(objects: readonly object[]): string[] {
  const calls = objects.map((object) => `print(health(${toLua(object)}).status)`).join('\n')
  const { status, stdout, stderr } = spawnSync('lua5.1', ['-'], {
    encoding: 'utf8',
    input: `local function health(obj)\n${script}\nend\n${calls}\n`,
  })
  assert.is(status, 0, stderr)
  return stdout.trim().split('\n')
}

/** Computes the status as kstatus does for any custom resource (sigs.k8s.io/cli-utils, pkg/kstatus/status/generic.go). */
function kstatus({ metadata, status }: KubernetesObject): string {
  const { conditions = [], observedGeneration } = (status ?? {}) as {
    conditions?: { type: string; status: string }[]
    observedGeneration?: number
  }
  const is = (type: string) => conditions.find((condition) => condition.type === type)?.status
  if (metadata.deletionTimestamp !== undefined) return 'Terminating'
  if (observedGeneration !== undefined && observedGeneration !== metadata.generation) return 'InProgress'
  if (is('Reconciling') === 'True') return 'InProgress'
  if (is('Stalled') === 'True') return 'Failed'
  return is('Ready') === 'True' ? 'Current' : 'InProgress'
}

const HEALTH: Record<string, string> = {
  Current: 'Healthy',
  InProgress: 'Progressing',
  Terminating: 'Progressing',
  Failed: 'Degraded',
}

/** Returns every object of a text, with the status that the operator would write. */
const parseObjects = (text: string): KubernetesObject[] =>
  planAll(buildWorld(text).view, context).map(({ object, plan }) => ({
    ...object,
    metadata: { ...object.metadata, generation: plan.status.observedGeneration },
    status: plan.status as object,
  }))

const object = (kind: string, spec: object, more: object = {}) =>
  JSON.stringify({
    apiVersion: 'portico.dev/v1beta1',
    kind,
    metadata: { name: kind.toLowerCase(), generation: 3, ...more },
    spec,
  })

/** One object of every kind; most are valid, as far as that is possible without a cluster, and some have a mistake. */
const SOUND: Record<string, object> = {
  MCPGroup: {},
  MCPServer: { image: 'a', transport: 'streamable-http' },
  MCPRemoteProxy: { remoteUrl: 'https://mcp.example/mcp' },
  MCPServerEntry: {
    remoteUrl: 'https://mcp.example/mcp',
    transport: 'streamable-http',
    groupRef: { name: 'mcpgroup' },
  },
  VirtualMCPServer: { groupRef: { name: 'mcpgroup' }, incomingAuth: { type: 'anonymous' } },
  MCPPin: { targetRef: { kind: 'MCPServer', name: 'mcpserver' } },
  MCPToolConfig: { toolsFilter: ['a'] },
  MCPTelemetryConfig: {
    openTelemetry: { enabled: true, endpoint: 'https://otel.example:4318', tracing: { enabled: true } },
  },
  MCPOIDCConfig: { type: 'inline', inline: { issuer: 'https://idp.example' } },
  MCPExternalAuthConfig: { type: 'unauthenticated' },
  MCPAuthzConfig: { type: 'cedarv1', config: { policies: ['permit(principal, action, resource);'] } },
  MCPRegistry: {
    sources: [{ name: 'own', file: { configMapRef: { name: 'own', key: 'a.json' } } }],
    registries: [{ name: 'r', sources: ['own'] }],
    auth: { mode: 'anonymous' },
  },
  VirtualMCPCompositeToolDefinition: { name: 'flow', description: 'A flow.', steps: [{ id: 'one', tool: 'a' }] },
}
const BROKEN = [
  object('VirtualMCPServer', { groupRef: { name: 'absent' }, incomingAuth: { type: 'anonymous' } }),
  object('MCPServer', { image: 'a', transport: 'streamable-http', podTemplateSpec: { spec: { hostNetwork: true } } }),
  object('MCPRemoteProxy', { remoteUrl: 'http://169.254.169.254/mcp' }),
  object('MCPAuthzConfig', { type: 'cedarv1', config: { policies: ['permit('] } }),
]
const running = (kind: string) =>
  JSON.stringify({
    kind: 'Observation',
    metadata: { name: kind.toLowerCase() },
    observation: { kind, replicas: 1, readyReplicas: 1 },
  })
const renderAll = (replicas?: number) =>
  Object.entries(SOUND)
    .map(([kind, spec]) => object(kind, replicas === undefined ? spec : { ...spec, replicas }))
    .join('\n---\n')

test('the Lua health checks and kstatus agree on every status that the operator writes', () => {
  const states = [
    ...parseObjects(renderAll()),
    ...parseObjects(`${renderAll()}\n---\n${Object.keys(SOUND).map(running).join('\n---\n')}`),
    ...BROKEN.flatMap((text) => parseObjects(text)),
  ]
  const objects = states.flatMap((one) => [
    one,
    { ...one, metadata: { ...one.metadata, generation: 4 } },
    { ...one, metadata: { ...one.metadata, deletionTimestamp: '2026-11-20T12:00:00Z' } },
  ])
  const health = readHealth(objects)
  objects.forEach((one, index) => {
    assert.is(health[index], HEALTH[kstatus(one)], `${one.kind}: ${JSON.stringify(one['status'])}`)
  })
  assert.equal([...new Set(states.map(({ kind }) => kind))].sort(), Object.keys(kinds).sort(), 'every kind')
  const seen = new Set(states.map(kstatus))
  for (const each of ['Current', 'InProgress', 'Failed']) assert.ok(seen.has(each), each)
})

test('an object is not healthy before the operator has seen it', () => {
  const metadata = { generation: 1 }
  const some = [{ metadata }, { metadata, status: {} }, { metadata, status: { conditions: [], observedGeneration: 1 } }]
  assert.equal(readHealth(some), ['Progressing', 'Progressing', 'Progressing'])
})

test('a workload that is ready without replicas is suspended', () => {
  const ready = { conditions: [{ type: 'Ready', status: 'True', message: '' }], observedGeneration: 1 }
  const some = [0, 1].map((replicas) => ({ metadata: { generation: 1 }, spec: { replicas }, status: ready }))
  assert.equal(readHealth(some), ['Suspended', 'Healthy'])
})

test('the examples set values that the chart has', () => {
  const valuesUsed = [ofKind('Application').spec.source.helm.valuesObject, ofKind('HelmRelease').spec.values]
  for (const one of valuesUsed) assert.ok(Object.keys(one).every((name) => Object.hasOwn(values, name)))
})

test.run()
