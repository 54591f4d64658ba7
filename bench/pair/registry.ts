import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { writeCatalogs } from '../registry/catalogs.ts'
import { bundleProduct } from '../registry/product.ts'
import { pathsOf, walk } from '../registry/reads.ts'
import { type Client, createClient } from '../registry/requests.ts'
import { type MeasuredRegistry, startRegistry } from '../registry/server.ts'
import { compare, type Measure, openBoth } from './turns.ts'

const ROWS = 20_000
const VERSIONS = 3.3
const PROCESSES = 4
/** Of each process. */
const TURNS = 10
const KINDS = ['first page', 'later page', 'versions/latest', 'search, two words'] as const
/** Requests of a turn, by what they take. */
const REQUESTS = { 'first page': 1_500, 'later page': 150, 'versions/latest': 1_500, 'search, two words': 40 } as const

/** Processor time of the registries of two checkouts for what is read most, over the same catalog in SQLite. */
export async function compareRegistries(roots: { readonly before: string; readonly after: string }): Promise<void> {
  const catalogs = await writeCatalogs(ROWS, VERSIONS)
  const configFile = await catalogs.configure({ auth: { mode: 'anonymous' } })
  const products = { before: await bundleProduct(roots.before), after: await bundleProduct(roots.after) }
  const sides = await openBoth(PROCESSES, async (side, index) => {
    const state = join(catalogs.directory, `${side}${index}`)
    await mkdir(state)
    const registry = await startRegistry(products[side].entry, configFile, state)
    return { registry, client: createClient(registry.url, undefined) }
  })
  const processes = [...sides.before, ...sides.after]
  const [first] = processes as [(typeof processes)[0]]
  const paths = pathsOf(await walk(first.client, ROWS))
  for (const kind of KINDS) {
    const path = paths[kind] as (index: number) => string
    const measures = (side: typeof sides.before) =>
      side.map(({ registry, client }) => measured(registry, client, path, REQUESTS[kind]))
    const pair = { before: measures(sides.before), after: measures(sides.after) }
    // Until the program is compiled.
    for (let round = 0; round < 8; round++) for (const measure of [...pair.before, ...pair.after]) await measure()
    await compare(`registry: ${kind}`, 'µs CPU', TURNS, pair)
  }
  for (const { registry, client } of processes) {
    client.close()
    await registry.close()
  }
  for (const product of Object.values(products)) await product.remove()
  await catalogs.remove()
}

/** Processor time of one request, in microseconds. */
function measured(
  registry: MeasuredRegistry,
  client: Client,
  path: (index: number) => string,
  requests: number,
): Measure {
  let asked = 0
  return async () => {
    const used = await registry.usage()
    for (let count = 0; count < requests; count++) await client.get(path(asked++))
    return (((await registry.usage()).cpuMs - used.cpuMs) / requests) * 1e3
  }
}
