/**
 * What the registry takes, over HTTP, on SQLite and on PostgreSQL: pages, searches and publications at 1,000 and at
 * 100,000 versions in one run, so that the ratio tells how they grow; memory and time of a first full sync; the cost of
 * sources that have not changed. Times are worth something on an idle machine alone, ratios and processor time on any.
 * About five minutes; `node bench/registry/run.ts [versions …]`, such as `100 2000` to try it
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type Caller, callers, shareOf, startCallers } from './callers.ts'
import { writeCatalogs } from './catalogs.ts'
import { bundleProduct } from './product.ts'
import { publishAtOnce } from './publish.ts'
import { measure, pathsOf, type Walked, walk } from './reads.ts'
import { type At, createReport } from './report.ts'
import { type Client, createClient } from './requests.ts'
import { type MeasuredRegistry, startRegistry } from './server.ts'
import { postgresStores, type Stores, sqliteStores } from './stores.ts'

/** Versions of a name on average, as in public catalogs. */
const VERSIONS = 3.3
/** Names of the registry whose start is measured. */
const START_NAMES = 10_000
/** Connections that look-ups come from at once. */
const CLIENTS = 8
const MIB = 2 ** 20

const given = process.argv.slice(2).map(Number)
const sizes = given.length > 0 ? given : [1_000, 100_000]
const began = performance.now()
const progress = (text: string) =>
  console.log(`${((performance.now() - began) / 1000).toFixed(0).padStart(4)} s  ${text}`)
const report = createReport(sizes)

const product = await bundleProduct()
const people = await startCallers()
for (const makeStores of [sqliteStores, postgresStores]) {
  const stores = await makeStores()
  try {
    for (const rows of sizes) await measureCatalog(stores, rows)
    await measureStart(stores, Math.min(START_NAMES, Math.max(...sizes)))
  } finally {
    await stores.close()
  }
}
await people.close()
await product.remove()
report.print()
progress('done')

async function measureCatalog(stores: Stores, rows: number): Promise<void> {
  const at = { store: stores.name, rows }
  progress(`${stores.name}, ${rows} versions: writing registry files`)
  const catalogs = await writeCatalogs(rows, VERSIONS)
  const state = join(catalogs.directory, 'state')
  await mkdir(state)
  const store = await stores.make(state)

  progress(`${catalogs.megabytes.toFixed(0)} MB, ${catalogs.names} names in sources: first sync`)
  const open = await catalogs.configure({ ...store.settings, auth: { mode: 'anonymous' } })
  const first = await startRegistry(product.entry, open, state)
  const synced = await first.usage()
  const walks: Walks = new Map()
  await measureReads(first, at, 'anonymous', walks)
  const { peakBytes, residentBytes } = await first.usage()
  await first.close()

  progress('the same again: nothing has changed')
  const writes = await store.writes()
  const again = await startRegistry(product.entry, open, state)
  const { cpuMs: cpuAgain } = await again.usage()
  await again.close()
  const written = (await store.writes()) - writes
  report.sync(at, {
    'catalog, MB': catalogs.megabytes,
    'first sync, s': first.startMs / 1000,
    'its cpu, s': synced.cpuMs / 1000,
    'peak of it, MiB': synced.peakBytes / MIB,
    'peak with reads, MiB': peakBytes / MIB,
    'afterwards, MiB': residentBytes / MIB,
    'unchanged: start, s': again.startMs / 1000,
    'its cpu, s ': cpuAgain / 1000,
    'its writes': written,
  })

  const closed = await startRegistry(
    product.entry,
    await catalogs.configure({ ...store.settings, auth: people.auth }),
    state,
  )
  for (const caller of Object.keys(callers) as Caller[])
    if (caller !== 'anonymous') await measureReads(closed, at, caller, walks)
  progress('publishing by eight writers at once')
  report.publish(at, await publishAtOnce(closed, (await people.headerOf('writer')) as string))
  await closed.close()
  await store.close()
  await catalogs.remove()
}

/** What callers see that see as much, by their share. */
type Walks = Map<number, Walked>

async function measureReads(registry: MeasuredRegistry, at: At, caller: Caller, walks: Walks): Promise<void> {
  progress(`reads, ${caller}`)
  const authorization = await people.headerOf(caller)
  const clients = Array.from({ length: CLIENTS }, () => createClient(registry.url, authorization))
  const share = shareOf(caller)
  const walked = walks.get(share) ?? (await walk(clients[0] as Client, at.rows * share))
  walks.set(share, walked)
  for (const [kind, path] of Object.entries(pathsOf(walked)))
    report.read(at, `${kind}, ${caller}`, await measure(registry, clients, kind, path))
  for (const client of clients) client.close()
}

/** How long it takes until so many names of twenty sources are served from an empty store. */
async function measureStart(stores: Stores, names: number): Promise<void> {
  progress(`${stores.name}: start with ${names} names on an empty store`)
  const catalogs = await writeCatalogs(names, 1)
  const state = join(catalogs.directory, 'state')
  await mkdir(state)
  const store = await stores.make(state)
  const registry = await startRegistry(
    product.entry,
    await catalogs.configure({ ...store.settings, auth: people.auth }),
    state,
  )
  report.start(stores.name, names, registry.startMs / 1000)
  await registry.close()
  await store.close()
  await catalogs.remove()
}
