import type { ClaimsMap } from '../../../identity/claims.ts'
import type { SyncState } from '../../sources/format/source.ts'
import type { RegistryRecord, SourceRecord } from '../database/records.ts'
import type { Database } from '../database/schema.ts'

/** The part of the store that every request needs. It is kept in memory, and read again after each change. */
export interface Snapshot {
  /** Returns the sets of claims of entries, sources and registries. The revision changes with each new set. */
  claimsSets(): {
    readonly revision: number
    readonly sets: readonly { readonly id: number; readonly claims: ClaimsMap }[]
  }
  sources(): ReadonlyMap<string, SourceRecord>
  registries(): ReadonlyMap<string, RegistryRecord & { readonly id: number }>
  /** Reads all changes up to now. Concurrent calls share a read. `entries`: only entries have changed. */
  refresh(changed?: 'entries'): Promise<void>
}

interface State {
  readonly claims: ReadonlyMap<number, ClaimsMap>
  readonly claimsSets: ReturnType<Snapshot['claimsSets']>
  readonly sources: ReturnType<Snapshot['sources']>
  readonly registries: ReturnType<Snapshot['registries']>
}

const NOTHING: State = {
  claims: new Map(),
  claimsSets: { revision: -1, sets: [] },
  sources: new Map(),
  registries: new Map(),
}

/** Creates the snapshot. It calls `onSettings` when the settings of sources or registries have changed. */
export async function createSnapshot(database: Database, onSettings?: () => void): Promise<Snapshot> {
  let state = NOTHING
  let running: Promise<void> | undefined
  let next: Promise<void> | undefined
  let full = false

  async function read(all: boolean): Promise<void> {
    const before = state
    let same: State | undefined
    try {
      same = all ? undefined : await readRevisions(database, before)
      state = same ?? (await readState(database, before))
    } catch (error) {
      // The next run reads everything that this one has missed.
      full ||= all
      throw error
    }
    if (same === undefined && onSettings && before !== NOTHING && formatSettings(before) !== formatSettings(state))
      onSettings()
  }

  function refresh(changed?: 'entries'): Promise<void> {
    full ||= changed === undefined
    if (running === undefined) {
      running = read(full).finally(() => {
        running = undefined
      })
      full = false
      return running
    }
    // The current run may have begun before the change.
    next ??= running
      .catch(() => {
        // Those who wait for the current run get its error.
      })
      .then(() => {
        next = undefined
        return refresh('entries')
      })
    return next
  }

  await refresh()
  return {
    claimsSets: () => state.claimsSets,
    sources: () => state.sources,
    registries: () => state.registries,
    refresh,
  }
}

/**
 * Reads only the revisions, by one query if no set of claims is new. Returns undefined if registries or their claims
 * have changed too: content that was read by a registry's id must not be cached under the revision of another.
 */
async function readRevisions(database: Database, before: State): Promise<State | undefined> {
  const rows = await database
    .selectFrom('registry')
    .select(['id', 'name', 'claims_set', 'revision'])
    .select((select) =>
      select
        .selectFrom('claims_set')
        .select((set) => set.fn.max('id').as('newest'))
        .as('newest'),
    )
    .execute()
  const isKnown = ({ id, name, claims_set }: (typeof rows)[number]) => {
    const record = before.registries.get(name)
    return record?.id === id && record.claims === before.claims.get(claims_set)
  }
  const known = rows.length === before.registries.size && rows.every(isKnown)
  if (!known) return undefined
  const revisions = new Map(rows.map(({ name, revision }) => [name, revision]))
  const same = rows[0]?.newest === before.claimsSets.revision
  return {
    ...before,
    ...(same ? {} : await readClaims(database, before)),
    registries: new Map(
      [...before.registries].map(([name, record]) => [name, { ...record, revision: revisions.get(name) as string }]),
    ),
  }
}

/** Formats the settings of sources and registries, to compare them. */
function formatSettings({ sources, registries }: State): string {
  return JSON.stringify([
    [...sources.values()].map(({ name, origin, config, claims }) => [name, origin, config, claims]),
    [...registries.values()].map(({ name, sources, claims }) => [name, sources, claims]),
  ])
}

async function readState(database: Database, before: State): Promise<State> {
  const sources = await database
    .selectFrom('source')
    .select(['name', 'origin', 'config', 'claims_set', 'created_at', 'updated_at', 'sync_state'])
    .orderBy('name')
    .execute()
  const registries = await database.selectFrom('registry').selectAll().orderBy('name').execute()
  const order = await database
    .selectFrom('registry_source as rs')
    .innerJoin('source as s', 's.id', 'rs.source_id')
    .select(['rs.registry_id', 's.name'])
    .orderBy('rs.position')
    .execute()
  // Sets of claims are read last, since they are stored before the rows that refer to them.
  const { claims, claimsSets } = await readClaims(database, before)
  const readManaged = (row: Omit<(typeof registries)[number], 'id' | 'revision'>) => ({
    name: row.name,
    origin: row.origin,
    claims: claims.get(row.claims_set) as ClaimsMap,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  })
  const bySource = Map.groupBy(order, ({ registry_id }) => registry_id)
  return {
    claims,
    claimsSets,
    sources: new Map(
      sources.map((row) => {
        const sync = row.sync_state === null ? undefined : (JSON.parse(row.sync_state) as SyncState)
        return [row.name, { ...readManaged(row), config: JSON.parse(row.config), sync }]
      }),
    ),
    registries: new Map(
      registries.map((row) => {
        const { id, name, revision } = row
        const sources = (bySource.get(id) ?? []).map((source) => source.name)
        return [name, { ...readManaged(row), id, revision, sources }]
      }),
    ),
  }
}

async function readClaims(database: Database, before: State): Promise<Pick<State, 'claims' | 'claimsSets'>> {
  const { revision } = before.claimsSets
  const rows = await database.selectFrom('claims_set').selectAll().where('id', '>', revision).orderBy('id').execute()
  if (rows.length === 0) return before
  const claims = new Map(before.claims)
  for (const row of rows) claims.set(row.id, JSON.parse(row.claims))
  return {
    claims,
    claimsSets: {
      revision: rows.at(-1)?.id ?? revision,
      sets: [...claims].map(([id, claims]) => ({ id, claims })),
    },
  }
}
