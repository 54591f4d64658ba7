/**
 * Checks that every valid configuration starts and runs: each number, duration and text of every kind at both ends of
 * its range is refused, or the data plane accepts the rendered configuration, with timers that Node supports and
 * bounded caches.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import { type KindName, kinds, validateObject } from '../../../crds/index.ts'
import type { SchemaNode } from '../../../crds/walk.ts'
import { ClientDocuments } from '../../../dataplane/authserver/clients/client-documents.ts'
import { checkRegistry } from '../../../dataplane/config/check/registry.ts'
import { type GatewayConfig, gatewayConfigSchema } from '../../../dataplane/config/gateway.ts'
import { parseGateway } from '../../../dataplane/config/read/gateway-findings.ts'
import { configParser } from '../../../dataplane/config/read/parse.ts'
import { type RegistryConfig, registryConfigSchema } from '../../../dataplane/config/registry.ts'
import { compileWorkflow } from '../../../dataplane/config/workflow/compile.ts'
import { failurePolicy } from '../../../dataplane/gateway/backends/health/health.ts'
import { serveGateway } from '../../../dataplane/gateway/index.ts'
import { buildSchedule } from '../../../dataplane/registry/sync/schedule.ts'
import { fillWorld, type KubernetesObject } from '../../../operator/model/index.ts'
import { reconcile } from '../../../operator/reconcile/index.ts'
import { recordLog } from '../../support/kept-log.ts'
import { startRedis } from '../../support/network/redis-server.ts'
import { fieldCorpus } from '../../support/operator/field-corpus.ts'
import { type Leaf, set, walkLeaves } from '../../support/operator/fields.ts'
import {
  addDefaults,
  ChangedWorld,
  configText,
  context,
  formatName,
  planWorld,
  worldContent,
} from '../../support/operator/plans.ts'

const INITIALIZE = {
  method: 'POST',
  headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
  body: JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
  }),
}

const content = worldContent(fieldCorpus)
const objects = [...content.objects]
const LARGEST = 2 ** 31 - 1

/** Returns both ends of the range that a schema accepts, and values near them. */
function listEnds({ schema, value }: Leaf): readonly unknown[] {
  const { minimum = -LARGEST, maximum = LARGEST } = schema as { minimum?: number; maximum?: number }
  if (typeof value === 'number') return [minimum, maximum]
  if (typeof value !== 'string' || schema.enum) return []
  if (schema.pattern?.includes('(ns|us|') === true) return ['0s', '1ns', '1.5ms', '597h', '2562047h']
  const { minLength = 0 } = schema as { minLength?: number }
  return ['x'.repeat(minLength), ' '.repeat(Math.max(1, minLength)), 'x'.repeat(schema.maxLength ?? 1)]
}

const parseRegistry = configParser(registryConfigSchema, checkRegistry)

const isTimer = (ms: number | undefined) => ms === undefined || (Number.isInteger(ms) && ms >= 0 && ms <= LARGEST)

/** Loads a rendered configuration as the data plane does, and builds the parts that hold timers or memory. */
function start(kind: string, text: string): void {
  if (kind === 'MCPRegistry') {
    const { sources } = parseRegistry(text) as RegistryConfig
    for (const source of sources) {
      const location = buildSchedule(source, { directory: '/', publicOnly: true, sourceBytes: 1 })?.location
      if (location !== undefined && 'timeoutMs' in location)
        assert.ok(isTimer(location.timeoutMs), 'timeout of a source')
    }
    return
  }
  const config = parseGateway(text) as GatewayConfig
  const { intervalMs, timeoutMs } = failurePolicy(config)
  assert.ok(isTimer(intervalMs) && isTimer(timeoutMs), 'timers of probes')
  for (const definition of config.compositeTools ?? [])
    for (const { onError, timeoutMs: stepMs } of compileWorkflow(definition).workflow.steps)
      assert.ok(isTimer(onError.delayMs) && isTimer(stepMs), 'timers of a step')
  const { cimd } = config.authServer ?? {}
  const rules = {} as never
  if (cimd) new ClientDocuments({ config: cimd, rules, isLocal: true, log: () => undefined as never })
}

const formatComplaints = (plan: ReturnType<typeof reconcile>): string =>
  JSON.stringify(
    plan.status.conditions.filter(({ status }) => status === 'False').map(({ type, message }) => [type, message]),
  )

/** Plans a variant of an object, and starts the rendered configuration unless it is refused. */
function serve(form: KubernetesObject, before: ReadonlyMap<string, string>): void {
  const view = world.with(form)
  const users = view.referrers(kinds[form.kind as KindName], form.metadata.namespace ?? '', form.metadata.name)
  const names = new Set(users.map(({ kind, name }) => `${kind} ${name}`))
  const planned = view.all().filter((object) => object === form || names.has(`${object.kind} ${object.metadata.name}`))
  for (const object of planned) {
    const plan = reconcile(object, view, context)
    if (formatComplaints(plan) !== before.get(formatName(object))) return
    for (const child of plan.children === 'hold' ? [] : plan.children)
      if (child.kind === 'ConfigMap')
        for (const text of Object.values(child['data'] as object)) start(object.kind, String(text))
  }
}

const world = new ChangedWorld(content)
const before = new Map(
  objects.map((object) => [formatName(object), formatComplaints(reconcile(object, world.view, context))]),
)

for (const kind of Object.keys(kinds) as KindName[])
  test(`${kind}: at both ends of each range it is refused, or served`, () => {
    const seen = new Set<string>()
    const failed: string[] = []
    for (const object of objects.filter((one) => one.kind === kind)) {
      for (const leaf of walkLeaves(kinds[kind].spec as SchemaNode, object['spec'], '/spec', '')) {
        if (seen.has(leaf.field) || typeof leaf.schema.readBy === 'object') continue
        seen.add(leaf.field)
        for (const end of listEnds(leaf)) {
          const form = addDefaults(set(object, leaf.pointer, end) as KubernetesObject)
          if (validateObject({ ...form, apiVersion: 'portico.dev/v1beta1' }, 'portico.dev').length > 0) continue
          try {
            serve(form, before)
          } catch (error) {
            failed.push(`${leaf.field} ${String(end).slice(0, 20)}: ${(error as Error).message.slice(0, 200)}`)
          }
        }
      }
    }
    assert.equal(failed, [])
  })

/** Gateways whose parts together set everything: different storage, different authentication of callers. */
const GATEWAYS = [
  ...['VirtualMCPServer/gateway', 'VirtualMCPServer/inline', 'MCPRemoteProxy/proxy', 'MCPRemoteProxy/logging-in'],
  ...[0, 1, 2].flatMap((index) => [`VirtualMCPServer/redis-${index}`, `VirtualMCPServer/logging-in-${index}`]),
]
const plans = planWorld(fillWorld(content))

/** Returns a configuration with each leaf at the first end of its range that is accepted. Many leaves are checked at once. */
function atEnds(
  config: GatewayConfig,
  leaves: readonly Leaf[],
  pick: (ends: readonly unknown[]) => readonly unknown[],
): GatewayConfig {
  const [leaf] = leaves
  if (leaf === undefined) return config
  if (leaves.length > 1) {
    const all = leaves.reduce((form, { pointer, ...one }) => {
      const [first = one.value] = pick(listEnds({ pointer, ...one }))
      return set(form, pointer, first) as GatewayConfig
    }, config)
    if (isAccepted(JSON.stringify(all))) return all
    const half = leaves.length >> 1
    return atEnds(atEnds(config, leaves.slice(0, half), pick), leaves.slice(half), pick)
  }
  const forms = pick(listEnds(leaf)).map((end) => set(config, leaf.pointer, end) as GatewayConfig)
  return forms.find((form) => isAccepted(JSON.stringify(form))) ?? config
}

/**
 * Returns the configuration of a gateway that connects only to this machine, with each number and duration at one end
 * of its range.
 */
function configAt(name: string, redis: string, pick: (ends: readonly unknown[]) => readonly unknown[]): string {
  const hosts = new Map<string, string>()
  const text = configText(plans.get(name)).replace(/(?<=https?:\/\/)[^/"\s]+/g, (host) => {
    const known = hosts.get(host) ?? `127.0.0.${hosts.size + 2}:1`
    hosts.set(host, known)
    return known
  })
  const config = parse(text, (key, value) => (key === 'addresses' ? [redis] : value)) as GatewayConfig
  const leaves = [...walkLeaves(gatewayConfigSchema as SchemaNode, config, '', '')].filter(
    ({ pointer, value, schema }) =>
      // The Redis server does not have that many databases.
      !pointer.endsWith('/redis/db') && (typeof value !== 'string' || schema.pattern?.includes('(ns|us|') === true),
  )
  return JSON.stringify(atEnds(config, leaves, pick))
}

function isAccepted(text: string): boolean {
  try {
    parseGateway(text)
    return true
  } catch {
    return false
  }
}

test('gateways with values at both ends of all ranges start, answer, and stop', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'portico-range-'))
  const redis = await startRedis()
  try {
    for (const name of GATEWAYS)
      for (const pick of [(ends: readonly unknown[]) => ends, (ends: readonly unknown[]) => ends.toReversed()]) {
        const text = configAt(name, redis.address, pick)
        const { incomingAuth, sessionStorage } = parseGateway(text) as GatewayConfig
        const configFile = join(folder, 'gateway.yaml')
        await writeFile(configFile, text)
        const own = { configFile, stateDirectory: join(folder, 'state'), log: recordLog().log }
        const gateway = await serveGateway({ ...own, listen: '127.0.0.1:0', adminListen: '127.0.0.1:0' })
        try {
          const answer = await fetch(`${gateway.url}/mcp`, INITIALIZE)
          await answer.text()
          // No Cluster and no Sentinel is running.
          const isAway = (sessionStorage?.redis?.mode ?? 'standalone') !== 'standalone'
          const expected = incomingAuth.type === 'oidc' ? 401 : isAway ? 503 : 200
          assert.is(answer.status, expected, `${name}: ${text}`)
          assert.is((await fetch(`${gateway.adminUrl}/status`)).status, 200, name)
        } finally {
          await gateway.close()
        }
      }
  } finally {
    await redis.stop()
    await rm(folder, { recursive: true })
  }
})

test.run()
