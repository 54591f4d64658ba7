import type { Kysely } from 'kysely'
import { PublicError } from '../../server/errors.ts'
import { isDatabaseError } from '../../storage/sql.ts'
import type { Visible } from '../authz/visibility.ts'
import type { Position } from '../catalog/cursor.ts'
import { precedence } from '../catalog/precedence.ts'
import { foldTerm, likePattern } from '../catalog/search-text.ts'
import { createListPage } from './list-page.ts'
import { createLookUp } from './look-up.ts'
import { createOneName } from './one-name.ts'
import { createAdminReader } from './read-admin.ts'
import type { AdminReader } from './records.ts'
import type { EntryType, RegistryTables } from './schema.ts'
import type { Snapshot } from './snapshot.ts'
import type { FilterValues, VersionFilter, VersionRow } from './version-columns.ts'

interface Scope {
  readonly registry: string
  readonly type: EntryType
  /** What the caller sees: a name is that of the first source whose entry is visible. */
  readonly visible: Visible
  readonly includeDeleted: boolean
}

/** What a page is asked for. */
export interface ListQuery extends Scope {
  readonly limit: number
  readonly after?: Position | undefined
  readonly search?: string | undefined
  /** UTC with milliseconds; only what changed later. */
  readonly updatedSince?: string | undefined
  /** `latest` or one version. */
  readonly version?: string | undefined
}

export interface VersionQuery extends Scope {
  readonly name: string
  /** `latest` or one version. */
  readonly version: string
}

/** Reads what registries show. Each answer comes from one state of the store. Throws a PublicError `unavailable`. */
export interface Reader extends AdminReader, Pick<Snapshot, 'claimsSets'> {
  /** Up to `limit` versions by name and precedence; none where there is no such registry. */
  list(query: ListQuery): Promise<readonly VersionRow[]>
  /** All versions of one entry, newest first. */
  versions(query: Omit<VersionQuery, 'version'>): Promise<readonly VersionRow[]>
  version(query: VersionQuery): Promise<VersionRow | undefined>
  /** The registry's revision, without a query; undefined where there is no such registry. */
  revision(registry: string): Promise<string | undefined>
  /** Resolves when registries, their revisions and sets of claims are known as they were when it was called, or later. */
  catchUp(): Promise<void>
}

export function createReader(database: Kysely<RegistryTables>, snapshot: Snapshot): Reader {
  const listPage = createListPage(database)
  const lookUp = createLookUp(database)
  const oneName = createOneName(database)
  const idOf = (registry: string) => snapshot.registries().get(registry)?.id

  return {
    ...createAdminReader(database, snapshot, available),
    claimsSets: snapshot.claimsSets,
    async list({ registry, type, visible, limit, after, search, updatedSince, version, includeDeleted }) {
      const id = idOf(registry)
      // No stored text has such a character, and PostgreSQL takes none.
      if (id === undefined || search?.includes('\0')) return []
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
      return available(listPage({ registry: id, type, visible, limit, after: position, filter, values, term: search }))
    },
    async versions({ registry, ...query }) {
      const id = idOf(registry)
      return id === undefined ? [] : available(oneName({ ...query, registry: id, version: 'all', values: {} }))
    },
    async version({ registry, version, ...query }) {
      const id = idOf(registry)
      if (id === undefined) return undefined
      const values = exactly(version)
      if (values === undefined) return available(lookUp({ ...query, registry: id }))
      const [row] = await available(oneName({ ...query, registry: id, version: 'exact', values }))
      return row
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

/** A database that fails is away, as far as the caller can know. */
export async function available<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    throw isDatabaseError(error) ? new PublicError('unavailable', { cause: error }) : error
  }
}
