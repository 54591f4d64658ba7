/**
 * Latency and processor time of the registry's reads, at 1,000 and at 10,000 rows in one run, so that the ratio tells
 * how they grow. `node bench/registry/run.ts [rows …]`
 */
import { Agent, request } from 'node:http'
import { generateServers, registryFile } from './generate.ts'
import { type MeasuredRegistry, startRegistry } from './server.ts'

const VERSIONS = 3.3
const WARM_UP = 200
const REQUESTS = 1_000
const agent = new Agent({ keepAlive: true, maxSockets: 1 })

interface Measured {
  readonly p50Ms: number
  readonly p99Ms: number
  /** Processor time of the server for one request. */
  readonly cpuMs: number
}

const sizes = process.argv.length > 2 ? process.argv.slice(2).map(Number) : [1_000, 10_000]
const results = []
for (const rows of sizes) results.push(await measureCatalog(rows))
agent.destroy()

console.table(Object.fromEntries(results.map(({ rows, summary }) => [`${rows} rows`, summary])))
for (const name of Object.keys(results[0]?.reads ?? {}))
  console.table({
    ...Object.fromEntries(results.map(({ rows, reads }) => [`${name}, ${rows} rows`, rounded(reads[name])])),
    ratio: rounded(ratio(results.at(-1)?.reads[name], results[0]?.reads[name])),
  })

// The store alone, on both databases; it takes the same sizes.
await import('./store.ts')

async function measureCatalog(rows: number) {
  const names = Math.round(rows / VERSIONS)
  // Two sources: the second repeats a part of the first's names, so that there is something to shadow.
  const catalogs = [names, Math.round(names / 3)].map((count, index) =>
    registryFile(generateServers({ names: count, versions: VERSIONS, bytes: [1_000, 8_000], seed: 1 + index })),
  )
  const registry = await startRegistry(catalogs)
  const synced = await registry.usage()
  const { cursors, known } = await walk(registry)
  const pick = <T>(list: readonly T[], index: number) => list[(index * 7919) % list.length] as T
  const reads: Record<string, Measured> = {
    'first page': await measure(registry, () => '/servers'),
    'later page': await measure(registry, (index) => `/servers?cursor=${pick(cursors, index)}`),
    'first page of latest': await measure(registry, () => '/servers?version=latest'),
    'search, common': await measure(registry, () => '/servers?search=calendar'),
    'search, rare': await measure(registry, () => '/servers?search=number%20131'),
    'versions/latest': await measure(registry, (index) => `/servers/${pick(known, index)}/versions/latest`),
  }
  const { residentBytes } = await registry.usage()
  await registry.close()
  return {
    rows,
    reads,
    summary: {
      'catalog MB': Math.round(catalogs.join('').length / 1e5) / 10,
      'start ms': Math.round(registry.startMs),
      'start cpu ms': Math.round(synced.cpuMs),
      'RSS MiB after sync': Math.round(synced.residentBytes / 2 ** 20),
      'RSS MiB': Math.round(residentBytes / 2 ** 20),
    },
  }
}

/** All cursors and the encoded names of all servers. */
async function walk(registry: MeasuredRegistry) {
  const cursors: string[] = []
  const known = new Set<string>()
  for (let cursor: string | undefined; ; ) {
    const page = JSON.parse(await get(registry, `/servers${cursor === undefined ? '' : `?cursor=${cursor}`}`))
    for (const { server } of page.servers) known.add(encodeURIComponent(server.name))
    cursor = page.metadata.nextCursor
    if (cursor === undefined) return { cursors, known: [...known] }
    cursors.push(cursor)
  }
}

async function measure(registry: MeasuredRegistry, path: (index: number) => string): Promise<Measured> {
  for (let index = 0; index < WARM_UP; index++) await get(registry, path(index))
  const before = await registry.usage()
  const times: number[] = []
  for (let index = 0; index < REQUESTS; index++) {
    const started = performance.now()
    await get(registry, path(index))
    times.push(performance.now() - started)
  }
  const { cpuMs } = await registry.usage()
  times.sort((one, other) => one - other)
  return {
    p50Ms: times[REQUESTS / 2] as number,
    p99Ms: times[REQUESTS * 0.99] as number,
    cpuMs: (cpuMs - before.cpuMs) / REQUESTS,
  }
}

function get({ base }: MeasuredRegistry, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request(base + path, { agent }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => {
        const body = Buffer.concat(chunks).toString()
        if (response.statusCode === 200) resolve(body)
        else reject(new Error(`${path}: ${response.statusCode} ${body}`))
      })
    })
    sent.on('error', reject)
    sent.end()
  })
}

function ratio(large: Measured | undefined, small: Measured | undefined): Measured | undefined {
  if (large === undefined || small === undefined) return undefined
  return {
    p50Ms: large.p50Ms / small.p50Ms,
    p99Ms: large.p99Ms / small.p99Ms,
    cpuMs: large.cpuMs / small.cpuMs,
  }
}

function rounded(measured: Measured | undefined) {
  return Object.fromEntries(Object.entries(measured ?? {}).map(([name, value]) => [name, Number(value.toFixed(3))]))
}
