import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { writeCatalogs } from '../registry/catalogs.ts'
import { buildPaths, walk } from '../registry/reads.ts'
import { type Client, createClient } from '../registry/requests.ts'
import { type MeasuredRegistry, startRegistry } from '../registry/server.ts'
import { buildShipped } from '../shipped/image.ts'
import { Comparison, type Measure, openBoth } from './turns.ts'

const ROWS = 20_000
const VERSIONS = 3.3
const ROUNDS = 8
/** The turns of each round. */
const TURNS = 6
const KINDS = ['first page', 'later page', 'versions/latest', 'search, two words'] as const
/** Requests per turn. */
const REQUESTS = { 'first page': 1_500, 'later page': 150, 'versions/latest': 1_500, 'search, two words': 40 } as const

/** Compares the processor time of two checkouts' registries for common reads, over the same catalog in SQLite. */
export async function compareRegistries(roots: { readonly before: string; readonly after: string }): Promise<void> {
  const catalogs = await writeCatalogs(ROWS, VERSIONS)
  const configFile = await catalogs.configure({ auth: { mode: 'anonymous' } })
  const products = { before: await buildShipped(roots.before), after: await buildShipped(roots.after) }
  for (const side of ['before', 'after']) await mkdir(join(catalogs.directory, side))
  const comparison = new Comparison('µs CPU')
  let paths: ReturnType<typeof buildPaths> | undefined
  for (let round = 0; round < ROUNDS; round++) {
    const both = await openBoth(round, async (side) => {
      const registry = await startRegistry(products[side], configFile, join(catalogs.directory, side))
      return { registry, client: createClient(registry.url, undefined) }
    })
    paths ??= buildPaths(await walk(both.after.client, ROWS))
    for (const kind of KINDS) {
      const path = paths[kind] as (index: number) => string
      const pair = {
        before: buildMeasure(both.before, path, REQUESTS[kind]),
        after: buildMeasure(both.after, path, REQUESTS[kind]),
      }
      // Until the program is compiled.
      for (let warmUp = 0; warmUp < 8; warmUp++) for (const measure of [pair.before, pair.after]) await measure()
      await comparison.measure(`registry: ${kind}`, TURNS, pair)
    }
    for (const { registry, client } of [both.before, both.after]) {
      client.close()
      await registry.close()
    }
  }
  comparison.print()
  for (const product of Object.values(products)) await product.remove()
  await catalogs.remove()
}

/** Processor time of one request, in microseconds. */
function buildMeasure(
  { registry, client }: { readonly registry: MeasuredRegistry; readonly client: Client },
  path: (index: number) => string,
  requests: number,
): Measure {
  let requested = 0
  return async () => {
    const used = registry.usage()
    for (let count = 0; count < requests; count++) await client.get(path(requested++))
    return { total: ((registry.usage().cpuMs - used.cpuMs) / requests) * 1e3 }
  }
}
