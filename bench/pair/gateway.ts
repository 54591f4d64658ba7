import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type LoadRequest, load } from '../gateway/load.ts'
import { endParts, type Part, start, tell } from '../gateway/parts.ts'
import { type Era, openSession, toolCall, toolsList } from '../gateway/requests.ts'
import { Comparison, type Measure, openBoth } from './turns.ts'

const WARM_UP = { workers: 16, seconds: 30, each: 1_000 }
const ROUNDS = 10
/** Of each round. */
const TURNS = 5
const SECONDS = 0.5
const backendScript = new URL('../gateway/bare-backend.ts', import.meta.url)

type Build = (session: string | undefined, worker: number, count: number) => LoadRequest

/** Processor time of the gateways of two checkouts for tools/call and tools/list, both before the same backends. */
export async function compareGateways(roots: { readonly before: string; readonly after: string }): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-pair-'))
  try {
    for (const era of ['modern', 'legacy'] as const) await compareEra(era, roots, directory)
  } finally {
    endParts()
    await rm(directory, { recursive: true })
  }
}

async function compareEra(
  era: Era,
  roots: { readonly before: string; readonly after: string },
  directory: string,
): Promise<void> {
  const backends = [await start(backendScript, era), await start(backendScript, era)]
  const configFile = join(directory, `${era}.yaml`)
  const config = {
    name: 'bench',
    namespace: 'default',
    role: 'gateway',
    incomingAuth: { type: 'anonymous' },
    backends: backends.map(({ origin }, index) => ({ name: `b${index}`, url: `${origin}/mcp` })),
  }
  await writeFile(configFile, JSON.stringify(config))
  const call: Build = (session, worker, count) =>
    toolCall(era, session, `b${(worker + count) % 2}_tool_${count % 20}`, worker, count)
  const list: Build = (session) => toolsList(era, session)
  const comparison = new Comparison('µs CPU')
  for (let round = 0; round < ROUNDS; round++) {
    const gateways = await openBoth(round, (side) =>
      start(pathToFileURL(join(roots[side], 'bench/gateway/gateway-process.ts')), configFile),
    )
    for (const part of [gateways.before, gateways.after]) {
      const sessions = await sessionsOf(era, part, WARM_UP.workers)
      for (const build of [call, list])
        await load({ origin: part.origin, ...WARM_UP, request: (worker, n) => build(sessions[worker], worker, n) })
    }
    for (const [name, build, workers] of [
      ['tools/call ×32', call, 32],
      ['tools/call ×1', call, 1],
      ['tools/list ×8', list, 8],
    ] as const)
      await comparison.measure(`gateway, ${era}: ${name}`, TURNS, {
        before: measured(era, gateways.before, build, workers),
        after: measured(era, gateways.after, build, workers),
      })
    for (const { child } of [gateways.before, gateways.after]) child.disconnect()
  }
  comparison.print()
  for (const { child } of backends) child.disconnect()
}

async function sessionsOf(era: Era, part: Part, count: number): Promise<(string | undefined)[]> {
  if (era === 'modern') return []
  return Promise.all(Array.from({ length: count }, () => openSession(`${part.origin}/mcp`)))
}

/** Processor time of one request, in microseconds. */
function measured(era: Era, part: Part, build: Build, workers: number): Measure {
  let sessions: (string | undefined)[] | undefined
  return async () => {
    sessions ??= await sessionsOf(era, part, workers)
    const begun = sessions
    const { cpu: used } = await tell(part)
    const { requests } = await load({
      origin: part.origin,
      workers,
      seconds: SECONDS,
      request: (worker, count) => build(begun[worker], worker, count),
    })
    const { cpu } = await tell(part)
    const user = (cpu.user - used.user) / requests
    return { total: user + (cpu.system - used.system) / requests, user }
  }
}
