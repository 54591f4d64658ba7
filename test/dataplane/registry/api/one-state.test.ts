import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Kysely, KyselyPlugin } from 'kysely'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { applySettings } from '../../../../dataplane/registry/store/apply/apply-settings.ts'
import { applySync } from '../../../../dataplane/registry/store/apply/apply-sync.ts'
import {
  openForReading,
  openForWriting,
  type StoreLocation,
} from '../../../../dataplane/registry/store/database/open.ts'
import type { RecordPage, SourceSetting } from '../../../../dataplane/registry/store/database/records.ts'
import type { RegistryTables } from '../../../../dataplane/registry/store/database/schema.ts'
import type { GatePage } from '../../../../dataplane/registry/store/read/gate-page.ts'
import { createReader, type ListQuery } from '../../../../dataplane/registry/store/read/read.ts'
import { createSnapshot } from '../../../../dataplane/registry/store/read/snapshot.ts'
import { startPostgres, type TestPostgres } from '../../../support/network/postgres.ts'
import { parseCatalog } from '../../../support/registry/parse-catalog.ts'
import { registryFile, server } from '../../../support/registry/registry.ts'

let postgres: TestPostgres
test.before(async () => {
  postgres = await startPostgres()
})
test.after(() => postgres.close())

/** So many entries that a search stops scanning among them. */
const fill = Array.from({ length: 250 }, (_, index) => `m/fill${String(index).padStart(3, '0')}`)
const states = [
  ['a/zq', 'x/one', ...fill, 'z/zq', 'z/zz'],
  ['b/zq', 'c/one', ...fill, 'y/one'],
]

const others = Array.from({ length: 70 }, (_, index) => 1_000 + index)
const queries: readonly Partial<ListQuery>[] = [
  { limit: 5 },
  { limit: 1_000 },
  { limit: 20, search: 'zq' },
  { limit: 20, search: 'zz' },
  { limit: 20, search: 'x/' },
  { limit: 20, search: 'one' },
  { limit: 20, search: 'u/unique' },
  // More sets than SQLite can compare in one statement; the existing ones are first and last.
  { limit: 20, visible: [0, ...others, 1], after: { name: 'z/zr', version: '1.0.0' } },
  { limit: 20, search: 'text of a', after: { name: 'n', version: '1.0.0' } },
  { limit: 5, search: 'zq', version: 'latest', visible: [0] },
  { limit: 5, version: '1.0.0', visible: [0], after: { name: 'm/fill240', version: '1.0.0' } },
  { limit: 20, search: 'zq', updatedSince: '2025-01-01T00:00:00.000Z' },
  { limit: 20, updatedSince: '2025-12-31T00:00:00.000Z', after: { name: 'n', version: '1.0.0' } },
]

async function sync(database: Kysely<RegistryTables>, source: string, names: readonly string[]): Promise<void> {
  const entries = names.map((name) => server(name, '1.0.0', { description: `text of ${source}` }))
  const { versions } = await parseCatalog(Buffer.from(registryFile(entries)))
  const end = {
    settingsHash: 'settings',
    cursor: 'mark',
    complete: true,
    problems: '[]',
    now: '2026-01-01T00:00:00.000Z',
  }
  await applySync(database, { ...end, source, versions })
}

for (const kind of ['SQLite', 'PostgreSQL'])
  test(`${kind}: a read shows one state, after whichever statement a change comes`, async () => {
    const directory = await mkdtemp(join(tmpdir(), 'portico-store-'))
    const place: StoreLocation =
      kind === 'SQLite'
        ? join(directory, 'catalog.sqlite')
        : { url: await postgres.database('state'), sslMode: 'disable' }
    const database = await openForWriting(place)
    const reading = openForReading(place)
    try {
      const sources: readonly SourceSetting[] = [
        { name: 'a', config: { file: { path: 'a' } }, claims: {} },
        { name: 'b', config: { file: { path: 'b' } }, claims: { team: 'b' } },
      ]
      await applySettings(database, { sources, registries: [{ name: 'main', sources: ['a', 'b'], claims: {} }] })
      await sync(database, 'b', ['x/one', 'z/zz'])
      let state = 0
      let changes = 0
      const change = () => sync(database, 'a', [...(states[(state = 1 - state)] as string[]), `u/unique${++changes}`])
      await change()

      let left = 0
      const between: KyselyPlugin = {
        transformQuery: ({ node }) => node,
        async transformResult({ result }) {
          if (--left === 0) await change()
          return result
        },
      }
      const reader = createReader(reading.withPlugin(between), await createSnapshot(reading))
      const whole = { registry: 'main', type: 'server', visible: 'all', limit: 9, includeDeleted: false } as const
      const list = async (query: Partial<ListQuery>) =>
        (await reader.list({ ...whole, ...query })).rows.map(
          ({ name, document, revision }) => `${name} ${/text of ./.exec(document)} ${revision}`,
        )
      const entries = async (read: Promise<RecordPage>) =>
        (await read).entries.map(
          ({ source, name, versions }) => `${name} of ${source} ${versions.map((one) => one.version)}`,
        )
      const reads: Readonly<Record<string, () => Promise<readonly string[]>>> = {
        ...Object.fromEntries(queries.map((query) => [JSON.stringify(query), () => list(query)])),
        'entries of a source': () => entries(reader.entriesOfSource('a', { limit: 1_000 })),
        'entries of a registry': () => entries(reader.entriesOfRegistry('main', { limit: 1_000 })),
        gate: async () => {
          const { revision, rows } = (await reader.gate('main', undefined)) as GatePage
          return rows.map((row) => `${revision} ${row}`)
        },
        'entries of a name': async () =>
          (await reader.entriesNamed('server', 'x/one')).map(
            ({ source, claims }) => `${source} ${JSON.stringify(claims)}`,
          ),
      }
      for (const [what, read] of Object.entries(reads))
        for (let statement = 1, reached = true; reached; statement++)
          for (const from of [0, 1]) {
            if (state !== from) await change()
            const before = await read()
            left = statement
            const during = await read()
            reached = left <= 0
            left = 0
            const after = await read()
            assert.ok(
              [before, after].some((one) => `${one}` === `${during}`),
              `${what}, changed behind statement ${statement}: ${during} is none of ${before} and ${after}`,
            )
          }
    } finally {
      await reading.destroy()
      await database.destroy()
      await rm(directory, { recursive: true })
    }
  })

test.run()
