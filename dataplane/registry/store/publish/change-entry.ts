import { lockSource } from '../apply/apply-sync.ts'
import { refreshLatest, refreshListing, renewRevisions } from '../apply/refresh.ts'
import { canonicalClaims, internOne } from '../database/claims-sets.ts'
import type { AdminWriter, EntryChange, EntryOutcome } from '../database/records.ts'
import type { Database, RegistryTables } from '../database/schema.ts'
import { countBytes } from '../database/version-columns.ts'

type Argument<K extends keyof AdminWriter> = Parameters<AdminWriter[K]>[0]

/** Replaces the claims of an entry. As the other functions here, it must be called in a transaction. */
export function setClaims(database: Database, change: Argument<'setClaims'>): Promise<EntryOutcome> {
  return changeEntry(database, change, async ({ id, claims }) => {
    if (claims === canonicalClaims(change.claims)) return 'same'
    const claims_set = await internOne(database, change.claims)
    await database.updateTable('entry').set({ claims_set }).where('id', '=', id).execute()
    return 'written'
  })
}

/** Makes a tombstone of a version. */
export function deleteVersion(database: Database, change: Argument<'deleteVersion'>): Promise<EntryOutcome> {
  const { at } = change
  return changeEntry(database, change, ({ id }) =>
    updateVersion(database, id, change.version, {
      status: 'deleted',
      status_message: null,
      status_changed_at: at,
      updated_at: at,
      gone_at: at,
    }),
  )
}

export function setStatus(database: Database, change: Argument<'setStatus'>): Promise<EntryOutcome> {
  const { at, status, message } = change
  return changeEntry(database, change, ({ id }) =>
    updateVersion(database, id, change.version, {
      status,
      status_message: message,
      status_changed_at: at,
      updated_at: at,
    }),
  )
}

interface Known {
  readonly id: number
  readonly claims: string
}

/** `same`: nothing has changed, so derived rows stay too. */
type Written = 'written' | 'same' | 'not_found'

/** Finds an entry, changes it if it has the expected claims, and updates its derived rows. */
async function changeEntry(
  database: Database,
  { source, type, name, expect }: EntryChange,
  change: (entry: Known) => Promise<Written>,
): Promise<EntryOutcome> {
  const owner = await database.selectFrom('source').select('id').where('name', '=', source).executeTakeFirst()
  if (owner === undefined) return 'not_found'
  await lockSource(database, owner.id)
  const entry = await database
    .selectFrom('entry as e')
    .innerJoin('claims_set as c', 'c.id', 'e.claims_set')
    .select(['e.id', 'c.claims'])
    .where('e.source_id', '=', owner.id)
    .where('e.type', '=', type)
    .where('e.name', '=', name)
    .where('e.living', '=', 1)
    .executeTakeFirst()
  if (entry === undefined) return 'not_found'
  if (entry.claims !== canonicalClaims(expect)) return 'changed'
  const written = await change(entry)
  if (written !== 'written') return written === 'same' ? 'done' : written
  await refreshLatest(database, [entry.id])
  await refreshListing(database, { entries: [entry.id] })
  await renewRevisions(database, [owner.id])
  return 'done'
}

type Columns = Partial<Pick<RegistryTables['entry_version'], 'gone_at'>> &
  Pick<RegistryTables['entry_version'], 'status' | 'status_message' | 'status_changed_at' | 'updated_at'>

async function updateVersion(database: Database, entry: number, version: string, columns: Columns): Promise<Written> {
  const known = await database
    .selectFrom('entry_version')
    .select(['id', 'status', 'status_message'])
    .where('entry_id', '=', entry)
    .where('version', '=', version)
    .where('gone_at', 'is', null)
    .executeTakeFirst()
  if (known === undefined) return 'not_found'
  const { gone_at, status, status_message } = columns
  if (gone_at === undefined && known.status === status && known.status_message === status_message) return 'same'
  const longer = countBytes(status_message) - countBytes(known.status_message)
  await database
    .updateTable('entry_version')
    .set((row) => ({ ...columns, bytes: row('bytes', '+', longer) }))
    .where('id', '=', known.id)
    .execute()
  return 'written'
}
