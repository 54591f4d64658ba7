import { PublicError } from '../../../server/errors.ts'
import { isDatabaseError } from '../../../storage/sql.ts'
import type { Visible } from '../../authz/access.ts'
import type { GatePosition, Position } from '../../catalog/cursor.ts'
import type { EntryType } from '../../catalog/entry.ts'
import { precedence } from '../../catalog/precedence.ts'
import { foldTerm, likePattern } from '../../catalog/search-text.ts'
import type { AdminReader } from '../database/records.ts'
import type { Database } from '../database/schema.ts'
import type { FilterValues, VersionFilter, VersionRow } from '../database/version-columns.ts'
import { createGatePage, type GatePage } from './gate-page.ts'
import { createListPage } from './list-page.ts'
import { createLookUp, createOneName, type LookUpQuery } from './one-name.ts'
import { createAdminReader } from './read-admin.ts'
import type { Snapshot } from './snapshot.ts'
import { createMakePage, type ReserveMemory, readConsistently, type VersionPage } from './version-page.ts'

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
const MOST_VERSIONS = 1_000

/**
 * Reads what registries show. Each read shows one state. Throws a PublicError `unavailable`, and what `hold` throws.
 */
export interface Reader extends AdminReader, Pick<Snapshot, 'claimsSets'> {
  /** Lists versions by name and precedence, up to `limit` and 8 MiB; none if there is no such registry. */
  list(query: ListQuery, hold?: ReserveMemory): Promise<VersionPage>
  /** Lists the versions of an entry, newest first, up to a thousand and 8 MiB. */
  versions(query: VersionsQuery, hold?: ReserveMemory): Promise<VersionPage>
  version(query: VersionQuery, hold?: ReserveMemory): Promise<VersionRow | undefined>
  /** Reads a page of a registry's gate; undefined if there is no such registry. */
  gate(registry: string, after: GatePosition | undefined): Promise<GatePage | undefined>
  revision(registry: string): Promise<string | undefined>
  /** Reads the registries, their revisions and the sets of claims again. */
  catchUp(): Promise<void>
}

export function createReader(database: Database, snapshot: Snapshot): Reader {
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
    ...createAdminReader(database, snapshot, askStore),
    claimsSets: snapshot.claimsSets,
    async list({ registry, type, visible, limit, after, search, updatedSince, version, includeDeleted }, hold) {
      const id = findId(registry)
      // No stored text has U+0000, and PostgreSQL refuses it.
      if (id === undefined || search?.includes('\0')) return NOTHING
      const filter: VersionFilter = {
        version: findShape(version),
        search: search !== undefined,
        updatedSince: updatedSince !== undefined,
        includeDeleted,
      }
      const values: FilterValues = {
        ...(search !== undefined && { pattern: likePattern(foldTerm(search)) }),
        ...(updatedSince !== undefined && { updatedSince }),
        ...exactPrecedence(version),
      }
      const position = after && { name: after.name, precedence: precedence(after.version) }
      const scope = { registry: id, type, visible, hold }
      return askStore(listPage({ ...scope, limit, after: position, filter, values, term: search }))
    },
    async versions({ registry, after, ...query }, hold) {
      const id = findId(registry)
      if (id === undefined) return NOTHING
      const before = after && precedence(after.version)
      const shape = { version: 'all', values: {}, limit: MOST_VERSIONS } as const
      return askStore(oneName({ ...query, ...shape, registry: id, before, hold }))
    },
    async version({ registry, version, ...query }, hold) {
      const id = findId(registry)
      if (id === undefined) return undefined
      const values = exactPrecedence(version)
      const { rows } =
        values === undefined
          ? await askStore(latest({ ...query, registry: id }, hold))
          : await askStore(oneName({ ...query, registry: id, version: 'exact', values, limit: 1, hold }))
      return rows[0]
    },
    async gate(registry, after) {
      const id = findId(registry)
      return id === undefined ? undefined : askStore(gatePage(id, after))
    },
    async revision(registry) {
      return snapshot.registries().get(registry)?.revision
    },
    catchUp: () => askStore(snapshot.refresh('entries')),
  }
}

function findShape(version: string | undefined): 'all' | 'latest' | 'exact' {
  return version === undefined ? 'all' : version === 'latest' ? 'latest' : 'exact'
}

function exactPrecedence(version: string | undefined): { precedence: string } | undefined {
  return findShape(version) === 'exact' ? { precedence: precedence(version as string) } : undefined
}

/** Waits for an answer of the store. A database error becomes the PublicError `unavailable`. */
export async function askStore<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    throw isDatabaseError(error) ? new PublicError('unavailable', { cause: error }) : error
  }
}
