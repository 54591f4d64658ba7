import type { Kysely } from 'kysely'
import { PublicError } from '../../../server/errors.ts'
import { isDatabaseError } from '../../../storage/sql.ts'
import type { Visible } from '../../authz/visibility.ts'
import type { GatePosition, Position } from '../../catalog/cursor.ts'
import type { EntryType } from '../../catalog/entry.ts'
import { precedence } from '../../catalog/precedence.ts'
import { foldTerm, likePattern } from '../../catalog/search-text.ts'
import type { AdminReader } from '../database/records.ts'
import type { RegistryTables } from '../database/schema.ts'
import type { FilterValues, VersionFilter, VersionRow } from '../database/version-columns.ts'
import { readConsistently } from './consistent-read.ts'
import { createGatePage, type GatePage } from './gate-page.ts'
import { createMakePage, type ReserveMemory, type VersionPage } from './large-texts.ts'
import { createListPage } from './list-page.ts'
import { createLookUp, type LookUpQuery } from './look-up.ts'
import { createOneName } from './one-name.ts'
import { createAdminReader } from './read-admin.ts'
import type { Snapshot } from './snapshot.ts'

interface Scope {
  readonly registry: string
  readonly type: EntryType
  readonly visible: Visible
  readonly includeDeleted: boolean
}

export interface ListQuery extends Scope {
  readonly limit: number
  readonly after?: Position | undefined
  readonly search?: string | undefined
  readonly updatedSince?: string | undefined
  readonly version?: string | undefined
}

export interface VersionQuery extends Scope {
  readonly name: string
  readonly version: string
}

export interface VersionsQuery extends Omit<VersionQuery, 'version'> {
  readonly after?: Position | undefined
}

const NOTHING: VersionPage = { rows: [], more: false }
/** The most versions of one name on a page. */
const MOST_VERSIONS = 1_000

/**
 * Reads what registries show, at one state of the store. Throws a PublicError `unavailable`, and what `hold` throws.
 */
export interface Reader extends AdminReader, Pick<Snapshot, 'claimsSets'> {
  /** Lists up to `limit` versions, and 8 MiB of them, by name and precedence; none if there is no such registry. */
  list(query: ListQuery, hold?: ReserveMemory): Promise<VersionPage>
  /** Lists versions of one entry, newest first: a thousand, and 8 MiB, at most. */
  versions(query: VersionsQuery, hold?: ReserveMemory): Promise<VersionPage>
  version(query: VersionQuery, hold?: ReserveMemory): Promise<VersionRow | undefined>
  /** Reads a page of the registry's gate; undefined if there is no such registry. */
  gate(registry: string, after: GatePosition | undefined): Promise<GatePage | undefined>
  revision(registry: string): Promise<string | undefined>
  /** Resolves when registries, their revisions and sets of claims are at least as new as at the call. */
  catchUp(): Promise<void>
}

export function createReader(database: Kysely<RegistryTables>, snapshot: Snapshot): Reader {
  const makePage = createMakePage(database)
  const listPage = createListPage(database, makePage)
  const lookUp = createLookUp(database)
  const oneName = createOneName(database, makePage)
  const gatePage = createGatePage(database)
  const findId = (registry: string) => snapshot.registries().get(registry)?.id

  async function latest(query: LookUpQuery, hold: ReserveMemory | undefined): Promise<VersionPage> {
    const find = async () => ({ rows: [(await lookUp(query)) ?? []].flat(), torn: false })
    return readConsistently(find, (rows, isLast) =>
      makePage(rows, { limit: 1, registry: query.registry, isLast, hold }),
    )
  }

  return {
    ...createAdminReader(database, snapshot, available),
    claimsSets: snapshot.claimsSets,
    async list({ registry, type, visible, limit, after, search, updatedSince, version, includeDeleted }, hold) {
      const id = findId(registry)
      // No stored text has such a character, and PostgreSQL takes none.
      if (id === undefined || search?.includes('\0')) return NOTHING
      const filter: VersionFilter = {
        version: versionShape(version),
        search: search !== undefined,
        updatedSince: updatedSince !== undefined,
        includeDeleted,
      }
      const values: FilterValues = {
        ...(search !== undefined && { pattern: likePattern(foldTerm(search)) }),
        ...(updatedSince !== undefined && { updatedSince }),
        ...exactly(version),
      }
      const position = after && { name: after.name, precedence: precedence(after.version) }
      const scope = { registry: id, type, visible, hold }
      return available(listPage({ ...scope, limit, after: position, filter, values, term: search }))
    },
    async versions({ registry, after, ...query }, hold) {
      const id = findId(registry)
      if (id === undefined) return NOTHING
      const before = after && precedence(after.version)
      const shape = { version: 'all', values: {}, limit: MOST_VERSIONS } as const
      return available(oneName({ ...query, ...shape, registry: id, before, hold }))
    },
    async version({ registry, version, ...query }, hold) {
      const id = findId(registry)
      if (id === undefined) return undefined
      const values = exactly(version)
      const { rows } =
        values === undefined
          ? await available(latest({ ...query, registry: id }, hold))
          : await available(oneName({ ...query, registry: id, version: 'exact', values, limit: 1, hold }))
      return rows[0]
    },
    async gate(registry, after) {
      const id = findId(registry)
      return id === undefined ? undefined : available(gatePage(id, after))
    },
    async revision(registry) {
      return snapshot.registries().get(registry)?.revision
    },
    catchUp: () => available(snapshot.refresh('entries')),
  }
}

function versionShape(version: string | undefined): 'all' | 'latest' | 'exact' {
  return version === undefined ? 'all' : version === 'latest' ? 'latest' : 'exact'
}

function exactly(version: string | undefined): { precedence: string } | undefined {
  return versionShape(version) === 'exact' ? { precedence: precedence(version as string) } : undefined
}

/** Treats a failing database as away, since the caller can't know more. */
export async function available<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    throw isDatabaseError(error) ? new PublicError('unavailable', { cause: error }) : error
  }
}
