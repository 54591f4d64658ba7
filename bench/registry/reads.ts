import { terms } from './catalogs.ts'
import type { Client } from './requests.ts'
import type { MeasuredRegistry } from './server.ts'

/** Turns that readings take, so that what is compared is of the same seconds. */
const TURNS = 10

/** How often something is asked. What is short is asked more often: what compiling the program costs would be most of it. */
interface Effort {
  readonly warmUp: number
  readonly requests: number
}
const SHORT: Effort = { warmUp: 10_000, requests: 10_000 }
/** The program is compiled after a thousand pages (measured: p50 of the first 300 is twice that of the fourth). */
const PAGE: Effort = { warmUp: 1_500, requests: 1_000 }
/** Together as many as there are terms of each kind. */
const SEARCH: Effort = { warmUp: 600, requests: 300 }
/** Positions in the list that are asked for in turn. */
const POSITIONS = 600
const BASE = '/registry/bench/v0.1/servers'

export interface Measured {
  readonly p50Ms: number
  readonly p99Ms: number
  /** Processor time of the server for one request; that of PostgreSQL is not in it. */
  readonly cpuMs: number
}

/** What is asked of a catalog of this size: positions from its beginning to its end, and the encoded names of servers. */
export interface Walked {
  readonly cursors: readonly string[]
  readonly names: readonly string[]
}

/** Goes through all that a caller sees, about so many versions. */
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

/** Paths by what they read. The first page alone is asked for again and again, as clients do. */
export function pathsOf({ cursors, names }: Walked): Record<string, (index: number) => string> {
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

/** What is asked for by name, and so many times as to tell how many of it a second of processor time is enough for. */
export const isLookup = (kind: string) => kind.startsWith('versions/')

function effortOf(kind: string): Effort {
  // The first page comes from memory; later ones are kept by nobody.
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
 * Reads the same kind of several: first all until the program is compiled, then by turns. One after the other on each
 * connection; a page is measured on one, look-ups come from many clients at once. Gives what was measured in the order of
 * the readings.
 */
export async function measure(kind: string, readings: readonly Reading[]): Promise<Measured[]> {
  const { warmUp, requests } = effortOf(kind)
  const measured = readings.map((reading) => ({ ...reading, asked: 0, cpuMs: 0, times: [] as number[] }))

  async function ask(one: (typeof measured)[number], count: number): Promise<void> {
    const end = one.asked + count
    const asking = isLookup(kind) ? one.clients : one.clients.slice(0, 1)
    await Promise.all(
      asking.map(async (client) => {
        while (one.asked < end) {
          const started = performance.now()
          await client.get(one.path(one.asked++))
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
