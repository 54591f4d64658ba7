/**
 * What Cedar policies cost beside the same calls without any, in one run and in turn: 20 policies on tools and claims,
 * whose decisions are kept, and 20 that read arguments, where each call is judged anew: by the one policy of its tool,
 * or by all 20. Modern era; every answer checked.
 * Usage: policies.ts [seconds a measurement]
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { load } from './load.ts'
import { cpuSeconds, endParts, type Part, start, tell } from './parts.ts'
import { toolCall } from './requests.ts'

const TURNS = Number(process.argv[2] ?? 5)
/** As many calls for each gateway, until V8 has compiled the hot path. */
const WARM_UP = { workers: 8, seconds: 30, each: TURNS > 1 ? 4_000 : 100 }
/** Of calls a CPU-second: a share of those without policies, or a number. */
const SHARE = { least: 0.85, text: 'at least 85 % of those without' }
const RATE = { least: 4_500, text: 'at least 4500' }
const local = (script: string) => new URL(script, import.meta.url)

const twenty = (policy: (index: number) => string) => Array.from({ length: 20 }, (_, index) => policy(index))
const onTools = twenty(
  (index) =>
    `permit(principal, action == Action::"call_tool", resource == Tool::"b_tool_${index}") unless { principal has claim_level && principal.claim_level < ${index} };`,
)
const onArguments = twenty(
  (index) =>
    `permit(principal, action == Action::"call_tool", resource == Tool::"b_tool_${index}") when { context has arg_message && context.arg_message like "w*" };`,
)
const onEachCall = twenty(
  (index) =>
    `permit(principal, action == Action::"call_tool", resource) when { context has arg_message && context.arg_message like "${index === 19 ? 'w' : `v${index}`}*" };`,
)

interface Measured {
  readonly name: string
  readonly part: Part
  requests: number
  cpu: number
}

async function startGateway(directory: string, backend: Part, name: string, policies?: readonly string[]) {
  const configFile = join(directory, `${name}.json`)
  const config = {
    name: 'bench',
    namespace: 'default',
    role: 'gateway',
    incomingAuth: { type: 'anonymous' },
    ...(policies === undefined ? {} : { authz: { policies } }),
    backends: [{ name: 'b', url: `${backend.origin}/mcp` }],
  }
  await writeFile(configFile, JSON.stringify(config))
  return { name, part: await start(local('gateway-process.ts'), configFile), requests: 0, cpu: 0 }
}

const request = (worker: number, count: number) => toolCall('modern', undefined, `b_tool_${count % 20}`, worker, count)

async function turn(one: Measured): Promise<void> {
  const before = await tell(one.part)
  const { requests } = await load({ origin: one.part.origin, workers: 8, seconds: 1, request })
  one.cpu += cpuSeconds(await tell(one.part)) - cpuSeconds(before)
  one.requests += requests
}

async function measure(directory: string): Promise<void> {
  const backend = await start(local('bare-backend.ts'), 'modern')
  const without = await startGateway(directory, backend, 'without policies')
  const cached = await startGateway(directory, backend, '20 policies on tools and claims', onTools)
  const judged = await startGateway(directory, backend, '20 policies on arguments, one a tool', onArguments)
  const allJudged = await startGateway(directory, backend, '20 policies on arguments of any tool', onEachCall)
  const all: readonly Measured[] = [without, cached, judged, allJudged]
  for (const { part } of all) await load({ origin: part.origin, ...WARM_UP, request })
  for (let left = TURNS; left > 0; left--) for (const one of all) await turn(one)
  const rate = ({ requests, cpu }: Measured) => requests / cpu
  const tellOf = (one: Measured, goal?: { readonly least: number; readonly text: string }) => {
    const share = rate(one) / rate(without)
    const isMissed = goal !== undefined && (goal === SHARE ? share : rate(one)) < goal.least
    const asked = goal === undefined ? '' : ` (goal: ${goal.text}${isMissed ? '; missed' : ''})`
    const percent = (share * 100).toFixed(1).padStart(5)
    console.log(`${one.name.padEnd(36)} ${rate(one).toFixed(0).padStart(6)} calls a CPU-second, ${percent} %${asked}`)
  }
  tellOf(without)
  tellOf(cached, SHARE)
  tellOf(judged, RATE)
  tellOf(allJudged, RATE)
}

const directory = await mkdtemp(join(tmpdir(), 'portico-bench-'))
try {
  await measure(directory)
} finally {
  endParts()
  await rm(directory, { recursive: true })
}
