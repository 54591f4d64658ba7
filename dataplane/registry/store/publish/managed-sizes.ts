import { type Kysely, sql } from 'kysely'
import type { RegistryTables } from '../database/schema.ts'

/** The lifetime of a count: other replicas publish too, and versions are deleted. */
const RECOUNT_MS = 10 * 60_000
/** The shortest time between two counts if there seems to be no room. */
const SOON_MS = 10_000

interface Counted {
  bytes: number
  readonly at: number
}

/** Estimates the bytes of documents in managed sources, since counting many of them takes long. */
export class ManagedSizes {
  readonly #sources = new Map<number, Counted>()

  /**
   * Returns the bytes that a source holds, counted anew if the count is old or `wanted` more would exceed the limit.
   */
  async held(database: Kysely<RegistryTables>, source: number, wanted: number, most: number): Promise<number> {
    const known = this.#sources.get(source)
    const age = known === undefined ? Number.POSITIVE_INFINITY : performance.now() - known.at
    const isFull = known !== undefined && known.bytes + wanted > most
    if (known !== undefined && age < (isFull ? SOON_MS : RECOUNT_MS)) return known.bytes
    const { rows } = await sql<{ bytes: number | string }>`
      select coalesce(sum(octet_length(text)), 0) as bytes from document where source_id = ${source}`.execute(database)
    // PostgreSQL gives sums as text.
    const bytes = Number(rows[0]?.bytes)
    this.#sources.set(source, { bytes, at: performance.now() })
    return bytes
  }

  add(source: number, bytes: number): void {
    const counted = this.#sources.get(source)
    if (counted !== undefined) counted.bytes += bytes
  }
}
