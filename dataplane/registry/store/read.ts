import type { Kysely } from 'kysely'
import { PublicError } from '../../server/errors.ts'
import { isDatabaseError } from '../../storage/sql.ts'
import type { Position } from '../catalog/cursor.ts'
import { precedence } from '../catalog/precedence.ts'
import { likePattern } from '../catalog/search-text.ts'
import {
  type ListingShape,
  type ListingStatement,
  listingStatement,
  type VersionRow,
  type VersionValues,
} from './listing-statement.ts'
import type { RegistryTables } from './schema.ts'
import { prepareStatement } from './statement.ts'

/** What a page is asked for. */
export interface ListQuery {
  readonly registry: string
  readonly limit: number
  readonly after?: Position | undefined
  readonly search?: string | undefined
  /** UTC with milliseconds; only what changed later. */
  readonly updatedSince?: string | undefined
  /** `latest` or one version. */
  readonly version?: string | undefined
  readonly includeDeleted: boolean
}

export interface VersionQuery {
  readonly registry: string
  readonly name: string
  /** `latest` or one version. */
  readonly version: string
  readonly includeDeleted: boolean
}

/** Reads what registries show. Each answer comes from one statement, so from one state of the store. */
export interface Reader {
  /** Up to `limit` versions by name and precedence. */
  list(query: ListQuery): Promise<readonly VersionRow[]>
  /** All versions of one server, newest first. */
  versions(query: Omit<VersionQuery, 'version'>): Promise<readonly VersionRow[]>
  version(query: VersionQuery): Promise<VersionRow | undefined>
  /** The registry's revision; undefined where there is no such registry. */
  revision(registry: string): Promise<string | undefined>
}

/** Statements are compiled when a query of their shape first comes; there are few shapes. */
export function createReader(database: Kysely<RegistryTables>): Reader {
  const statements = new Map<string, ListingStatement>()

  const revisionOf = prepareStatement<RegistryTables, { registry: string }, { revision: string }>(database, (value) =>
    database.selectFrom('registry').select('revision').where('name', '=', value('registry')),
  )

  function run(shape: ListingShape, values: VersionValues): Promise<readonly VersionRow[]> {
    const key = JSON.stringify(shape)
    let statement = statements.get(key)
    if (statement === undefined) statements.set(key, (statement = listingStatement(database, shape)))
    return available(statement(values))
  }

  return {
    list({ registry, limit, after, search, updatedSince, version, includeDeleted }) {
      return run(
        {
          order: 'name',
          version: versionShape(version),
          after: after !== undefined,
          search: search !== undefined,
          updatedSince: updatedSince !== undefined,
          includeDeleted,
        },
        {
          registry,
          limit,
          ...(after && { afterName: after.name, afterPrecedence: precedence(after.version) }),
          ...(search !== undefined && { pattern: likePattern(search) }),
          ...(updatedSince !== undefined && { updatedSince }),
          ...exactly(version),
        },
      )
    },
    versions({ registry, name, includeDeleted }) {
      return run({ order: 'newest', one: true, includeDeleted }, { registry, name })
    },
    async version({ registry, name, version, includeDeleted }) {
      const shape = { order: 'newest', one: true, version: versionShape(version), includeDeleted } as const
      const [row] = await run(shape, { registry, name, ...exactly(version) })
      return row
    },
    async revision(registry) {
      const [row] = await available(revisionOf({ registry }))
      return row?.revision
    },
  }
}

function versionShape(version: string | undefined): 'all' | 'latest' | 'exact' {
  return version === undefined ? 'all' : version === 'latest' ? 'latest' : 'exact'
}

function exactly(version: string | undefined): { precedence: string } | undefined {
  return versionShape(version) === 'exact' ? { precedence: precedence(version as string) } : undefined
}

/** A database that fails is away, as far as the caller can know. */
async function available<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    throw isDatabaseError(error) ? new PublicError('unavailable', { cause: error }) : error
  }
}
