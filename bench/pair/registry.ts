import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { writeCatalogs } from '../registry/catalogs.ts'
import { bundleProduct } from '../registry/product.ts'
import { pathsOf, walk } from '../registry/reads.ts'
import { type Client, createClient } from '../registry/requests.ts'
import { type MeasuredRegistry, startRegistry } from '../registry/server.ts'
import { compare, type Measure } from './turns.ts'

const ROWS = 20_000
const VERSIONS = 3.3
const TURNS = 20
const KINDS = ['first page', 'later page', 'versions/latest', 'search, two words'] as const
/** Requests of a turn, by what they take. */
const REQUESTS = { 'first page': 1_500, 'later page': 150, 'versions/latest': 1_500, 'search, two words': 40 } as const

/** Processor time of the registries of two checkouts for what is read most, over the same catalog in SQLite. */
export async function compareRegistries(roots: { readonly before: string; readonly after: string }): Promise<void> {
  const catalogs = await writeCatalogs(ROWS, VERSIONS)
  const configFile = await catalogs.configure({ auth: { mode: 'anonymous' } })
  const open = async (side: 'before' | 'after') => {
    const product = await bundleProduct(roots[side])
    const state = join(catalogs.directory, side)
    await mkdir(state)
    const registry = await startRegistry(product.entry, configFile, state)
    return { product, registry, client: createClient(registry.url, undefined) }
  }
  const sides = { before: await open('before'), after: await open('after') }
  const paths = pathsOf(await walk(sides.before.client, ROWS))
  for (const kind of KINDS) {
    const path = paths[kind] as (index: number) => string
    const { before, after } = sides
    const pair = {
      before: measured(before.registry, before.client, path, REQUESTS[kind]),
      after: measured(after.registry, after.client, path, REQUESTS[kind]),
    }
    // Until the program is compiled.
    for (let round = 0; round < 8; round++) for (const measure of Object.values(pair)) await measure()
    await compare(`registry: ${kind}`, 'µs CPU', TURNS, pair)
  }
  for (const { product, registry, client } of Object.values(sides)) {
    client.close()
    await registry.close()
    await product.remove()
  }
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
