/**
 * Measures the memory of pins and the catalog gate, and the time until they are in force, at a gateway that is started
 * as in the image: bytes of the heap of a pin and of a row of the gate; how long 10,000 pins take to be reloaded, and a
 * changed tool to leave the lists after `list_changed`. Usage: run.ts [rounds, 5 by default]
 * Ends with 1 where a bar is missed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { definitionDigest } from '../../crds/settings/definition-digest.ts'
import { type GateRow, startGateRegistry } from '../../test/support/gateway/gate-registry.ts'
import { startChangingServer } from '../../test/support/servers/changing-server.ts'
import { modernRequest } from '../gateway/requests.ts'
import { type Bench, runBench } from '../shipped/bench.ts'
import type { Gateway } from '../shipped/gateway.ts'
import { HEAP_TELLER, tellHeap } from '../shipped/heap-teller.ts'
import { readUsage } from '../shipped/process.ts'

const ROUNDS = Number(process.argv[2] ?? 5)
const PINS = 10_000
const SHOWN = 500
const ROWS = 5_000

const buildTool = (index: number, text: string): string =>
  JSON.stringify({
    name: `server_tool_${index}`,
    description: text,
    inputSchema: { type: 'object', properties: { message: { type: 'string' } } },
  })
const buildName = (index: number) => `server_tool_${index}`

const server = await startChangingServer('modern', {
  tools: Array.from({ length: SHOWN }, (_, index) => buildTool(index, 'What it is for.')),
})

/** Pins of so many tools; the server shows the first of them. */
const buildPinned = (count: number, without?: string) => {
  const names = Array.from({ length: count }, (_, index) => index).filter((index) => buildName(index) !== without)
  const tools = Object.fromEntries(
    names.map((index) => [buildName(index), [definitionDigest(buildTool(index, 'What it is for.'))]]),
  )
  return { backends: [{ name: 'b', url: server.url, pinning: { mode: 'enforce', pins: { tools } } }] }
}

async function listIn({ origin }: Gateway): Promise<string> {
  const { headers, body } = modernRequest('tools/list', {}, { expects: '' })
  const pairs = Array.from({ length: headers.length / 2 }, (_, index) => headers.slice(index * 2, index * 2 + 2))
  const answer = await fetch(`${origin}/mcp`, { method: 'POST', headers: pairs as [string, string][], body })
  return answer.text()
}

/** Milliseconds until a list is as it must be. */
async function untilListed(gateway: Gateway, isRight: (list: string) => boolean): Promise<number> {
  const from = performance.now()
  while (!isRight(await listIn(gateway))) await sleep(5)
  return performance.now() - from
}

/** The heap of a gateway that has nothing more to do: the least of several collections. */
async function settledHeap(gateway: Gateway): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let count = 0; count < 5; count++) {
    await sleep(500)
    least = Math.min(least, await tellHeap(gateway))
  }
  return least
}

let isMissed = false
function tell(what: string, values: readonly number[], unit: string, most: number): void {
  const worst = Math.max(...values)
  const isMet = worst <= most
  isMissed ||= !isMet
  const all = values.map((value) => value.toFixed(value < 10 ? 2 : 0)).join(', ')
  console.log(`${what}: ${all} ${unit}, at most ${most}: ${isMet ? 'met' : 'missed'}`)
}

/** Bytes of the heap for each of so many more things that a gateway is given. */
async function bytesEach(bench: Bench, few: object, many: object, more: number, isReady: (list: string) => boolean) {
  const values: number[] = []
  for (let round = 0; round < Math.ceil(ROUNDS / 2); round++) {
    const heaps: number[] = []
    for (const config of [few, many]) {
      const gateway = await bench.gateway(config, HEAP_TELLER)
      await untilListed(gateway, isReady)
      heaps.push(await settledHeap(gateway))
      gateway.end()
    }
    values.push(((heaps[1] as number) - (heaps[0] as number)) / more)
  }
  return values
}

const has = (list: string, index: number) =>
  list.includes(`"b_${buildName(index)}"`) || list.includes(`"${buildName(index)}"`)

await runBench(async (bench) => {
  const perPin = await bytesEach(bench, buildPinned(SHOWN), buildPinned(PINS), PINS - SHOWN, (list) =>
    has(list, SHOWN - 1),
  )
  tell('memory of a pin', perPin, 'bytes', 100)

  const buildRows = (count: number): GateRow[] =>
    Array.from({ length: count }, (_, index) => ({
      name: `com.example/server-${index}`,
      remotes: [{ type: 'streamable-http', url: index === 0 ? server.url : `https://server-${index}.example.com/mcp` }],
      claims: { team: `team-${index % 50}` },
    }))
  const few = await startGateRegistry(buildRows(1))
  const many = await startGateRegistry(buildRows(ROWS))
  for (const registry of [few, many]) registry.mode = 'anonymous'
  const buildGated = (url: string) => ({
    backends: [{ name: 'b', url: server.url }],
    catalogGate: { mode: 'enforce', registries: [{ name: 'house', url, registry: 'main' }] },
  })
  const perRow = await bytesEach(bench, buildGated(few.url), buildGated(many.url), ROWS - 1, (list) =>
    has(list, SHOWN - 1),
  )
  tell('memory of a row of the gate', perRow, 'bytes', 2048)
  await Promise.all([few.close(), many.close()])

  const gateway = await bench.gateway(buildPinned(PINS))
  await untilListed(gateway, (list) => has(list, SHOWN - 1))
  const before = readUsage(gateway.pid).cpu
  const reloads: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    await gateway.configure(buildPinned(PINS, buildName(7)))
    reloads.push((await untilListed(gateway, (list) => !has(list, 7))) / 1000)
    await gateway.configure(buildPinned(PINS))
    reloads.push((await untilListed(gateway, (list) => has(list, 7))) / 1000)
  }
  tell(`${PINS} pins reloaded`, reloads, 's', 1)
  // What a busy machine does not lengthen; the requests of who waits are in it.
  const cpu = (readUsage(gateway.pid).cpu - before) / 1e6 / reloads.length
  console.log(`  of which ${cpu.toFixed(2)} s of processor time each`)

  const drifts: number[] = []
  const changed = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
  for (let round = 0; round < ROUNDS; round++) {
    for (const [text, isShown] of [
      ['Something else.', false],
      ['What it is for.', true],
    ] as const) {
      // Nothing was asked just before: a change comes at any time.
      await sleep(200 + 800 * Math.random())
      server.shows.tools[7] = buildTool(7, text)
      server.notify(changed)
      const ms = await untilListed(gateway, (list) => has(list, 7) === isShown)
      if (!isShown) drifts.push(ms / 1000)
    }
  }
  tell('a changed tool out of the lists after list_changed', drifts, 's', 2)
})
await server.close()
process.exit(isMissed ? 1 : 0)
