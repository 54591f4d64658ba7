import { terms } from './catalogs.ts'
import type { Client } from './requests.ts'
import type { MeasuredRegistry } from './server.ts'

/** Readings alternate in turns, so that they see the same machine. */
const TURNS = 10

/** Number of requests. Short ones are repeated more often: otherwise compilation would dominate. */
interface Effort {
  readonly warmUp: number
  readonly requests: number
}
const SHORT: Effort = { warmUp: 10_000, requests: 10_000 }
/** The program is compiled after a thousand pages (measured: p50 of the first 300 is twice that of the fourth). */
const PAGE: Effort = { warmUp: 1_500, requests: 1_000 }
/** As many as there are terms of each kind. */
const SEARCH: Effort = { warmUp: 600, requests: 300 }
const POSITIONS = 600
const BASE = '/registry/bench/v0.1/servers'

export interface Measured {
  readonly p50Ms: number
  readonly p99Ms: number
  /** Processor time of the server per request, without PostgreSQL. */
  readonly cpuMs: number
}

/** Positions in a catalog from its beginning to its end, and the encoded names of servers. */
export interface Walked {
  readonly cursors: readonly string[]
  readonly names: readonly string[]
}

/** Walks through everything that a caller sees, about this many versions. */
export async function walk(client: Client, rows: number): Promise<Walked> {
  const limit = Math.min(100, Math.max(1, Math.floor(rows / POSITIONS)))
  const cursors: string[] = []
  const names = new Set<string>()
  for (let cursor: string | undefined; ; ) {
    const page = JSON.parse(
      String(await client.get(`${BASE}?limit=${limit}${cursor === undefined ? '' : `&cursor=${cursor}`}`)),
    )
    for (const { server } of page.servers) names.add(encodeURIComponent(server.name))
    cursor = page.metadata.nextCursor
    if (cursor === undefined) return { cursors, names: [...names] }
    cursors.push(cursor)
  }
}

/** Returns paths by kind. Only the first page is requested repeatedly, as clients do. */
export function buildPaths({ cursors, names }: Walked): Record<string, (index: number) => string> {
  const pick = (list: readonly string[], index: number) => list[(index * 17) % list.length] as string
  const search = (term: (index: number) => string) => (index: number) =>
    `${BASE}?search=${encodeURIComponent(term(index))}`
  return {
    'first page': () => BASE,
    'later page': (index) => `${BASE}?cursor=${pick(cursors, index)}`,
    'versions/latest': (index) => `${BASE}/${pick(names, index)}/versions/latest`,
    ...Object.fromEntries(Object.entries(terms).map(([kind, term]) => [`search, ${kind}`, search(term)])),
  }
}

/** Tells whether a kind is a look-up by name, whose result is reported as requests per CPU-second. */
export const isLookup = (kind: string) => kind.startsWith('versions/')

function chooseEffort(kind: string): Effort {
  // The first page is cached; later ones are not.
  if (isLookup(kind) || kind === 'first page') return SHORT
  return kind === 'later page' ? PAGE : SEARCH
}

/** Something that is read over and over. */
export interface Reading {
  readonly registry: MeasuredRegistry
  readonly clients: readonly Client[]
  path(index: number): string
}

/**
 * Reads the same kind with several readings: first until the program is compiled, then in turns. Pages use one
 * connection, look-ups come from many clients. Returns results in the order of the readings.
 */
export async function measure(kind: string, readings: readonly Reading[]): Promise<Measured[]> {
  const { warmUp, requests } = chooseEffort(kind)
  const measured = readings.map((reading) => ({ ...reading, next: 0, cpuMs: 0, times: [] as number[] }))

  async function ask(one: (typeof measured)[number], count: number): Promise<void> {
    const end = one.next + count
    const asking = isLookup(kind) ? one.clients : one.clients.slice(0, 1)
    await Promise.all(
      asking.map(async (client) => {
        while (one.next < end) {
          const started = performance.now()
          await client.get(one.path(one.next++))
          one.times.push(performance.now() - started)
        }
      }),
    )
  }

  for (const one of measured) {
    await ask(one, warmUp)
    one.times.length = 0
  }
  for (let turn = 0; turn < TURNS; turn++)
    for (const one of measured) {
      const before = one.registry.usage()
      await ask(one, requests / TURNS)
      one.cpuMs += one.registry.usage().cpuMs - before.cpuMs
    }
  return measured.map(({ times, cpuMs }) => {
    times.sort((one, other) => one - other)
    return {
      p50Ms: times[requests / 2] as number,
      p99Ms: times[requests * 0.99] as number,
      cpuMs: cpuMs / requests,
    }
  })
}
