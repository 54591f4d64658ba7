/**
 * Measures what one author can make others pay: the processor time of each check and command by size (twice the size
 * may cost at most 2.5 times), and the longest pause of an operator's event loop (at most 250 ms) while it reconciles
 * 300 configs of another namespace, without and with the largest texts beside them. Usage: run.ts [operator=only]
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import { unified } from '../../cli/diff/unified.ts'
import { dispatch } from '../../cli/dispatch.ts'
import { kinds } from '../../crds/index.ts'
import { checkManifests, readManifests } from '../../operator/cluster/files/index.ts'
import type { ApiServer } from '../../operator/cluster/kubernetes/api-server.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { clusterAddress } from '../../operator/reconcile/index.ts'
import { createParts } from '../../operator/runtime/loop/parts.ts'
import { addDefaults } from '../../test/support/operator/plans.ts'
import { inputs } from './inputs.ts'
import { manifests } from './manifests.ts'

const SMALLEST = 16
const ROUNDS = 5
/** Shorter times, in milliseconds, are noise. */
const NOISE = 30
const log = pino({ level: 'silent' })

/** Returns the least processor time of a few rounds, in milliseconds. Each round checks a new text. */
async function measureCost(run: (size: number) => unknown, size: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < ROUNDS; round++) {
    const before = process.cpuUsage()
    await run(Math.max(1, size - round))
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, (user + system) / 1000)
  }
  return least
}

let isTooSteep = false

/** Prints how the cost of a check grows with the size. */
async function showGrowth(name: string, most: number, run: (size: number) => unknown): Promise<void> {
  await measureCost(run, most / SMALLEST)
  const costs: (readonly [size: number, ms: number])[] = []
  for (let size = most / 4; size <= most; size *= 2) costs.push([size, await measureCost(run, size)])
  const ratios = costs.slice(1).map(([, ms], index) => ms / Math.max(NOISE, costs[index]?.[1] ?? 0))
  const worst = Math.max(...ratios)
  isTooSteep ||= worst > 2.5
  const summary = costs.map(([size, ms]) => `${size}: ${ms.toFixed(0)} ms`).join(', ')
  console.log(`${name.padEnd(40)} x${worst.toFixed(2)} for twice the size  (${summary})`)
}

const silent = { out: () => {}, err: () => {}, env: {}, stop: new AbortController().signal }
const folder = mkdtempSync(join(tmpdir(), 'portico-authors-'))
const file = join(folder, 'a.yaml')

/** The commands that read files. `diff` and `pin` read and check them, and get the rest from others. */
const commands: Readonly<Record<string, () => unknown>> = {
  'diff, pin': () => checkManifests(readManifests([file])),
  validate: () => dispatch(['validate', file], silent),
  render: () => dispatch(['render', '--status', file], silent),
  explain: () => dispatch(['explain', file, '--tool', 'x'], silent),
}

if (!process.argv.includes('operator=only')) {
  for (const [name, { most, run }] of Object.entries(inputs)) await showGrowth(name, most, run)
  await showGrowth('diff: lines that differ', 16_000, (size) =>
    unified('a\nb\n'.repeat(size / 2), 'a\nc\n'.repeat(size / 2)),
  )
  for (const [name, { most, write }] of Object.entries(manifests))
    for (const [command, run] of Object.entries(commands))
      await showGrowth(`${name}: ${command}`, most, (size) => {
        writeFileSync(file, write(size))
        return run()
      })
}
rmSync(folder, { recursive: true, force: true })

const object = (kind: string, namespace: string, name: string, spec: object): KubernetesObject =>
  addDefaults({
    apiVersion: 'portico.dev/v1beta1',
    kind,
    metadata: { name, namespace, uid: `of-${namespace}-${name}`, generation: 1, resourceVersion: '1' },
    spec,
  })

const PLURALS = Object.fromEntries(Object.values(kinds).map(({ kind, plural }) => [kind, plural]))

/** Returns the longest pause of the event loop and the time for the other namespace, in milliseconds. */
async function reconcile(hostile: readonly KubernetesObject[], others: readonly KubernetesObject[]) {
  const done = new Set<string>()
  const api = {
    apply: async (_: unknown, one: KubernetesObject) => ({
      ...one,
      metadata: { ...one.metadata, uid: `of-${one.metadata.name}`, resourceVersion: '1', generation: 1 },
    }),
    jsonPatch: async (_: unknown, __: string, name: string, { operations }: { operations: { value: unknown }[] }) => {
      done.add(name)
      return { apiVersion: 'v1', kind: 'X', metadata: { name }, status: operations.at(-1)?.value }
    },
    request: async () => ({ metadata: {} }),
    create: async () => ({}),
  } as unknown as ApiServer
  const resource = (kind: string, plural: string) => ({ group: 'portico.dev', version: 'v1beta1', plural, kind })
  const parts = createParts(
    {
      context: { group: 'portico.dev', image: 'portico:bench', resolveAddress: clusterAddress },
      namespaces: [],
      identity: 'bench',
      log,
      readStatus: () => async () => ({}),
    },
    {
      api,
      resources: new Map(Object.entries(PLURALS).map(([kind, plural]) => [kind, resource(kind, plural)])),
      leading: () => true,
      assertLeading: () => undefined,
      finalize: async () => undefined,
    },
  )
  for (const one of [...hostile, ...others]) {
    parts.world.objects.put(one)
    parts.queue.add(`${one.kind}/${one.metadata.namespace}/${one.metadata.name}`)
  }
  const pauses = monitorEventLoopDelay({ resolution: 1 })
  pauses.enable()
  const startedAt = performance.now()
  const runWorker = async () => {
    for (let key = await parts.queue.take(); key !== undefined; key = await parts.queue.take()) {
      await parts.reconciler.run(key, parts.queue).catch((error: Error) => console.log(`${key}: ${error.message}`))
      parts.queue.done(key)
      await delay(0)
    }
  }
  const workers = Promise.all([runWorker(), runWorker(), runWorker(), runWorker()])
  while (others.some(({ metadata }) => !done.has(metadata.name))) await delay(5)
  const othersMs = performance.now() - startedAt
  while (parts.checks.pending > 0 || parts.queue.depth + parts.queue.working > 0) await delay(5)
  const allMs = performance.now() - startedAt
  pauses.disable()
  parts.queue.close()
  parts.checks.close()
  await workers
  return `longest pause ${(pauses.max / 1e6).toFixed(0)} ms, others done after ${othersMs.toFixed(0)} ms, all after ${allMs.toFixed(0)} ms`
}

const others = (namespace: string) =>
  Array.from({ length: 300 }, (_, index) =>
    object('MCPToolConfig', namespace, `${namespace}-${index}`, { toolsFilter: [`tool-${index}`] }),
  )
const buildEntities = (salt: number) =>
  JSON.stringify(
    Array.from({ length: 440 }, (_, id) => ({
      uid: { type: 'T', id: `${salt}-${id}` },
      attrs: {},
      parents: id < 439 ? [{ type: 'T', id: `${salt}-${id + 1}` }] : [],
    })),
  )
const buildPolicies = (salt: number) =>
  Array.from({ length: 1_000 }, (_, id) => `permit(principal, action, resource == Tool::"${salt}-${id}");`)
const hostile = Array.from({ length: 5 }, (_, salt) => [
  object('MCPAuthzConfig', 'hostile', `rules-${salt}`, {
    type: 'cedarv1',
    config: { policies: buildPolicies(salt), entitiesJson: buildEntities(salt) },
  }),
  object('MCPRegistry', 'hostile', `registry-${salt}`, {
    configYAML: `# ${salt}\n${Array.from({ length: 60_000 }, (_, id) => `k${id}: 1\n`).join('')}`,
  }),
]).flat()

/** Objects that the API server accepts, each at its bounds. */
const large: Readonly<Record<string, KubernetesObject>> = {
  'policies and entities': hostile[0] as KubernetesObject,
  'keys of a configYAML': hostile[1] as KubernetesObject,
  pins: object('MCPPin', 'hostile', 'pins', {
    targetRef: { kind: 'MCPServer', name: 'x' },
    tools: Array.from({ length: 10_000 }, (_, id) => ({
      name: `t${id}`,
      digests: [`sha256:${id.toString(16).padStart(64, '0')}`],
    })),
  }),
  'arguments of a step': object('VirtualMCPCompositeToolDefinition', 'hostile', 'arguments', {
    name: 't',
    steps: [{ id: 's', tool: 'a.b', arguments: values(9_000) }],
  }),
  'arguments beyond their bound': object('VirtualMCPCompositeToolDefinition', 'hostile', 'beyond', {
    name: 't',
    steps: [{ id: 's', tool: 'a.b', arguments: values(50_000) }],
  }),
  'overrides of tools': object('MCPToolConfig', 'hostile', 'overrides', {
    toolsOverride: Object.fromEntries(Array.from({ length: 512 }, (_, id) => [`t${id}`, { name: `u${id}` }])),
  }),
  'unknown fields of a pod template': object('MCPServer', 'hostile', 'unknown', {
    image: 'x',
    transport: 'streamable-http',
    podTemplateSpec: { spec: values(20_000) },
  }),
  'containers of a pod template': object('MCPServer', 'hostile', 'containers', {
    image: 'x',
    transport: 'streamable-http',
    podTemplateSpec: {
      spec: { containers: Array.from({ length: 20_000 }, (_, id) => ({ name: `c${id}`, image: 'y' })) },
    },
  }),
  'a text that is no YAML': object('MCPRegistry', 'hostile', 'text', { configYAML: `x: ${'? '.repeat(400_000)}` }),
}

/** As the API server sorts them. */
function values(count: number): Readonly<Record<string, string>> {
  return Object.fromEntries(Array.from({ length: count }, (_, id) => [`k${String(id).padStart(6, '0')}`, 'a']))
}

await reconcile([], others('warm'))
console.log(`\noperator, 300 configs of another namespace: ${await reconcile([], others('alone'))}`)
for (const [name, one] of Object.entries(large))
  console.log(`beside ${name.padEnd(36)} ${await reconcile([one], others(`beside-${one.metadata.name}`))}`)
console.log(`beside 10 texts at their bounds:             ${await reconcile(hostile, others('beside'))}`)
process.exit(isTooSteep ? 1 : 0)
