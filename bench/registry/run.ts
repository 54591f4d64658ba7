/**
 * Measures the registry over HTTP on SQLite and PostgreSQL: pages, searches and publications at 1,000 and 100,000
 * versions, memory and time of the first sync, and unchanged sources. Times mean something only on an idle machine.
 * About seven minutes; `node bench/registry/run.ts [versions …]`, such as `100 2000` to try it
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { THIS_CHECKOUT } from '../shipped/bench.ts'
import { buildShipped } from '../shipped/image.ts'
import { type Caller, callers, computeShare, startCallers } from './callers.ts'
import { type Catalogs, writeCatalogs } from './catalogs.ts'
import { publishAtOnce } from './publish.ts'
import { buildPaths, type Measured, measure, type Walked, walk } from './reads.ts'
import { type At, createReport } from './report.ts'
import { type Client, createClient } from './requests.ts'
import { type MeasuredRegistry, startRegistry, type Usage } from './server.ts'
import { type MeasuredStore, postgresStores, type Stores, sqliteStores } from './stores.ts'

/** Versions of a name on average, as in public catalogs. */
const VERSIONS = 3.3
const START_NAMES = 10_000
const CLIENTS = 8
const MIB = 2 ** 20

const numbers = process.argv.slice(2).map(Number)
const sizes = numbers.length > 0 ? numbers : [1_000, 100_000]
const began = performance.now()
const progress = (text: string) =>
  console.log(`${((performance.now() - began) / 1000).toFixed(0).padStart(4)} s  ${text}`)
const report = createReport(sizes)

const walks = new Map<string, Walked>()

const product = await buildShipped(THIS_CHECKOUT)
const people = await startCallers()
for (const makeStores of [sqliteStores, postgresStores]) {
  const stores = await makeStores()
  try {
    await measureCatalogs(stores)
    await measureStart(stores, Math.min(START_NAMES, Math.max(...sizes)))
  } finally {
    await stores.close()
  }
}
await people.close()
await product.remove()
report.print()
progress('done')

/** A catalog of one size, and the registry that serves it at the moment. */
interface Served {
  readonly at: At
  readonly catalogs: Catalogs
  readonly store: MeasuredStore
  readonly state: string
  registry: MeasuredRegistry
  readonly synced: Usage
}

/** All sizes run side by side, so that they see the same machine. */
async function measureCatalogs(stores: Stores): Promise<void> {
  const served: Served[] = []
  for (const rows of sizes) served.push(await firstSync(stores, rows))
  await measureReads(served, ['anonymous'])
  for (const one of served) await measureUnchanged(one)
  const known = (Object.keys(callers) as Caller[]).filter((caller) => caller !== 'anonymous')
  await measureReads(served, known)
  for (const { at, registry, store, catalogs } of served) {
    progress(`publishing by eight writers at once, ${at.rows} versions`)
    report.publish(at, await publishAtOnce(registry, (await people.buildHeader('writer')) as string))
    await registry.close()
    await store.close()
    await catalogs.remove()
  }
}

async function firstSync(stores: Stores, rows: number): Promise<Served> {
  progress(`${stores.name}, ${rows} versions: writing registry files`)
  const catalogs = await writeCatalogs(rows, VERSIONS)
  const state = join(catalogs.directory, 'state')
  await mkdir(state)
  const store = await stores.make(state)

  progress(`${catalogs.megabytes.toFixed(0)} MB, ${catalogs.names} names in sources: first sync`)
  const open = await catalogs.configure({ ...store.settings, auth: { mode: 'anonymous' } })
  const registry = await startRegistry(product, open, state)
  return { at: { store: stores.name, rows }, catalogs, store, state, registry, synced: registry.usage() }
}

/** Restarts it over its data, and at the end for callers with different rights. */
async function measureUnchanged(served: Served): Promise<void> {
  const { at, catalogs, store, state, registry: first, synced } = served
  const { peakBytes, residentBytes } = first.usage()
  await first.close()

  progress(`the same again: nothing has changed, ${at.rows} versions`)
  const writes = await store.writes()
  const open = await catalogs.configure({ ...store.settings, auth: { mode: 'anonymous' } })
  const again = await startRegistry(product, open, state)
  const { cpuMs: cpuAgain } = again.usage()
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
  const closed = await catalogs.configure({ ...store.settings, auth: people.auth })
  served.registry = await startRegistry(product, closed, state)
}

interface Reading {
  readonly at: At
  readonly caller: Caller
  readonly registry: MeasuredRegistry
  readonly clients: readonly Client[]
  readonly paths: ReturnType<typeof buildPaths>
}

async function measureReads(served: readonly Served[], readers: readonly Caller[]): Promise<void> {
  const readings: Reading[] = []
  for (const caller of readers)
    for (const { at, registry } of served) {
      progress(`what there is for ${caller}, ${at.rows} versions`)
      const authorization = await people.buildHeader(caller)
      const clients = Array.from({ length: CLIENTS }, () => createClient(registry.url, authorization))
      const seen = `${at.store} ${at.rows} ${computeShare(caller)}`
      const walked = walks.get(seen) ?? (await walk(clients[0] as Client, at.rows * computeShare(caller)))
      walks.set(seen, walked)
      readings.push({ at, caller, registry, clients, paths: buildPaths(walked) })
    }
  for (const kind of Object.keys(readings[0]?.paths ?? {})) {
    progress(`reads, ${kind}`)
    const reads = readings.map(({ registry, clients, paths }) => ({ registry, clients, path: paths[kind] as Path }))
    const measured = await measure(kind, reads)
    for (const [index, { at, caller }] of readings.entries())
      report.read(at, `${kind}, ${caller}`, measured[index] as Measured)
  }
  for (const { clients } of readings) for (const client of clients) client.close()
}

type Path = (index: number) => string

/** Measures the time until this many names of twenty sources are served from an empty store. */
async function measureStart(stores: Stores, names: number): Promise<void> {
  progress(`${stores.name}: start with ${names} names on an empty store`)
  const catalogs = await writeCatalogs(names, 1)
  const state = join(catalogs.directory, 'state')
  await mkdir(state)
  const store = await stores.make(state)
  const registry = await startRegistry(
    product,
    await catalogs.configure({ ...store.settings, auth: people.auth }),
    state,
  )
  report.start(stores.name, names, registry.startMs / 1000)
  await registry.close()
  await store.close()
  await catalogs.remove()
}
