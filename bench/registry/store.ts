/**
 * The store alone, without HTTP: pages for a caller who sees all and for one who sees a twentieth, searches, and
 * publications by eight writers at once, on both databases. `node bench/registry/store.ts [rows …]` (1,000 and 100,000)
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { applySettings } from '../../dataplane/registry/store/apply-settings.ts'
import { stageSync } from '../../dataplane/registry/store/apply-sync.ts'
import { openStore, type Store } from '../../dataplane/registry/store/index.ts'
import { openForWriting, type StorePlace } from '../../dataplane/registry/store/open.ts'
import { createLog } from '../../dataplane/server/log.ts'
import { startPostgres } from '../../test/support/postgres.ts'
import { publication } from '../../test/support/store.ts'
import { generateServers } from './generate.ts'

const SOURCES = 20
const VERSIONS = 3.3
const BATCH = 500
const RUNS = 101
const log = createLog({ name: 'bench', level: 'error' })

const sizes = process.argv.length > 2 ? process.argv.slice(2).map(Number) : [1_000, 100_000]
const postgres = await startPostgres()
try {
  for (const kind of ['SQLite', 'PostgreSQL']) {
    const measured: [string, Record<string, number>][] = []
    for (const rows of sizes) {
      const directory = await mkdtemp(join(tmpdir(), 'portico-bench-'))
      const place =
        kind === 'SQLite' ? undefined : { url: await postgres.database(`rows${rows}`), sslMode: 'disable' as const }
      const filling = performance.now()
      await fill(place ?? join(directory, 'catalog.sqlite'), rows)
      const store = await openStore({ stateDirectory: directory, postgres: place }, log)
      const seconds = (performance.now() - filling) / 1000
      measured.push([
        `${kind}, ${rows} rows`,
        { 'filled, s': seconds, ...(await reads(store)), ...(await writes(store)) },
      ])
      await store.close()
      await rm(directory, { recursive: true })
    }
    console.table(Object.fromEntries(measured.map(([name, row]) => [name, rounded(row)])))
    const [small, large] = [measured[0]?.[1] ?? {}, measured.at(-1)?.[1] ?? {}]
    console.table({
      [`${kind}, ratio`]: rounded(
        Object.fromEntries(Object.entries(large).map(([name, value]) => [name, value / (small[name] ?? 1)])),
      ),
    })
  }
} finally {
  await postgres.close()
}

/** Sources with claims of their own; every fourth repeats the names of the one before. */
async function fill(place: StorePlace, rows: number): Promise<void> {
  const database = await openForWriting(place)
  const names = Array.from({ length: SOURCES }, (_, index) => `source-${index}`)
  await applySettings(database, {
    sources: [
      ...names.map((name, index) => ({ name, config: { file: { path: name } }, claims: { team: `t${index}` } })),
      { name: 'own', config: { managed: {} }, claims: {} },
    ],
    registries: [{ name: 'main', sources: [...names, 'own'], claims: {} }],
  })
  for (const [index, name] of names.entries()) {
    const staging = await stageSync(database, name)
    const servers = generateServers({
      names: Math.round(rows / SOURCES / VERSIONS),
      versions: VERSIONS,
      bytes: [1_000, 8_000],
      seed: index + 1,
      prefix: `p${index % 4 === 3 ? index - 1 : index}`,
    })
    let batch: Parameters<typeof staging.add>[0][number][] = []
    for (const server of servers) {
      const { title, description, version } = server
      const document = JSON.stringify(server)
      const unknown = { statusMessage: null, statusChangedAt: null, publishedAt: null, others: null }
      batch.push({
        type: 'server',
        name: server.name,
        version,
        title,
        description,
        document,
        status: 'active',
        ...unknown,
      })
      if (batch.length < BATCH) continue
      await staging.add(batch)
      batch = []
    }
    await staging.add(batch)
    const now = new Date().toISOString()
    await staging.finish({ settingsHash: '', mark: '', complete: true, problems: '[]', now })
  }
  await database.destroy()
}

/** Medians in milliseconds. */
async function reads({ reader }: Store): Promise<Record<string, number>> {
  const sets = reader.claimsSets().sets
  const one = sets.filter(({ claims }) => claims['team'] === 't7').map(({ id }) => id)
  const found: Record<string, number> = {}
  for (const [who, visible] of [
    ['all', 'all'],
    ['5 %', one],
  ] as const) {
    const page = { registry: 'main', type: 'server', visible, limit: 31, includeDeleted: false } as const
    const later = { name: `com.example.p6-${'graph'}/a`, version: '1.0.0' }
    found[`page, ${who}`] = await median(() => reader.list(page))
    found[`later page, ${who}`] = await median(() => reader.list({ ...page, after: later }))
    for (const term of ['com', 'calendar graph', 'number 131', 'p19-', 'no such thing', 'e'])
      found[`“${term}”, ${who}`] = await median(() => reader.list({ ...page, search: term }))
    const [first] = await reader.list({ ...page, limit: 1 })
    const name = first?.name ?? ''
    found[`latest, ${who}`] = await median(() => reader.version({ ...page, name, version: 'latest' }))
  }
  return found
}

async function median(run: () => Promise<unknown>): Promise<number> {
  const times: number[] = []
  for (let index = 0; index < RUNS; index++) {
    const started = performance.now()
    await run()
    times.push(performance.now() - started)
  }
  return times.sort((one, other) => one - other)[(RUNS - 1) / 2] as number
}

async function writes({ writer }: Store): Promise<Record<string, number>> {
  const each = 50
  const started = performance.now()
  const before = process.cpuUsage()
  await Promise.all(
    Array.from({ length: 8 }, async (_, number) => {
      for (let index = 0; index < each; index++)
        await writer.publish(publication(`com.example/w${number}-${index}`, { claims: { team: 't7' } }))
    }),
  )
  const { user, system } = process.cpuUsage(before)
  return {
    'published a second': (8 * each * 1000) / (performance.now() - started),
    'a publication, cpu ms': (user + system) / 1000 / 8 / each,
  }
}

function rounded(row: Record<string, number>) {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, Number(value.toFixed(3))]))
}
