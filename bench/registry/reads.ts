import { terms } from './catalogs.ts'
import type { Client } from './requests.ts'
import type { MeasuredRegistry } from './server.ts'

const WARM_UP = 300
const REQUESTS = 300
/** What is short is asked more often: what compiling the program costs would be most of what is measured of few. */
const SHORT_WARM_UP = 10_000
const SHORT_REQUESTS = 10_000
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
  // Positions enough for each page to be asked for once, so that it comes from the store.
  const limit = Math.min(100, Math.max(1, Math.floor(rows / (WARM_UP + REQUESTS))))
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

/** The first page comes from memory. */
const isShort = (kind: string) => isLookup(kind) || kind === 'first page'

/** Asks one after the other on each connection. A page is measured on one; look-ups come from many clients at once. */
export async function measure(
  registry: MeasuredRegistry,
  clients: readonly Client[],
  kind: string,
  path: (index: number) => string,
): Promise<Measured> {
  const [warmUp, requests] = isShort(kind) ? [SHORT_WARM_UP, SHORT_REQUESTS] : [WARM_UP, REQUESTS]
  const asking = isLookup(kind) ? clients : clients.slice(0, 1)
  let asked = 0
  const times: number[] = []
  const askUntil = (end: number) =>
    Promise.all(
      asking.map(async (client) => {
        while (asked < end) {
          const started = performance.now()
          await client.get(path(asked++))
          times.push(performance.now() - started)
        }
      }),
    )

  await askUntil(warmUp)
  times.length = 0
  const before = await registry.usage()
  await askUntil(warmUp + requests)
  const { cpuMs } = await registry.usage()
  times.sort((one, other) => one - other)
  return {
    p50Ms: times[requests / 2] as number,
    p99Ms: times[requests * 0.99] as number,
    cpuMs: (cpuMs - before.cpuMs) / requests,
  }
}
