import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { Reservation, type Share } from '../../../server/budget.ts'
import { encodeCursor } from '../../catalog/cursor.ts'
import { type EntryType, OFFICIAL } from '../../catalog/entry.ts'
import type { VersionRow } from '../../store/database/version-columns.ts'
import type { Reader } from '../../store/read/read.ts'
import type { ReserveMemory, VersionPage } from '../../store/read/version-page.ts'
import type { CallerMemory } from '../request/caller-memory.ts'
import type { OpenRegistry } from '../request/open-registry.ts'
import type { CatalogQuery } from '../request/query.ts'

/** A smaller body fits into one packet anyway, so it is not compressed. */
const SMALLEST_COMPRESSED = 1_400

interface CatalogBodiesOptions {
  readonly reader: Reader
  readonly memory: CallerMemory
  /** The reason why the store can't be reached; undefined while it can. Only then is the cache valid. */
  away(): string | undefined
}

/**
 * Finds the body of a response, compressed if `gzip` is allowed and the body not too small. Returns undefined and
 * throws as `readCatalog` does. Throws too if the caller's share is exceeded.
 */
type FindBody = (
  query: CatalogQuery,
  open: OpenRegistry,
  gzip: boolean,
  share: Share,
) => ResponseBody | Promise<ResponseBody | undefined>

interface BodyRequest {
  readonly query: CatalogQuery
  readonly open: OpenRegistry
  readonly gzip: boolean
  readonly share: Share
}

/** Compresses in zlib's thread pool, so that other requests are served meanwhile. */
const compress = promisify(gzip)
/** For a page of 96 kB level 4 takes 0.65 ms and gives 11.4 kB; level 6 1.4 ms and 10.6, level 1 0.26 ms and 14.1. */
const GZIP_LEVEL = 4

/**
 * Creates the function that finds bodies, in a cache or by reading the store. A cache key has the parts of the ETag, so
 * that callers who see other entries don't get the body. Concurrent requests share one read and one compression, since
 * gzip of 130 kB takes 1.6 to 5.5 ms.
 */
export function createCatalogBodies({ reader, memory, away }: CatalogBodiesOptions): FindBody {
  const cache = new BodyCache()
  const requested = new RecentKeys()
  const making = new Map<string, Promise<ResponseBody | undefined>>()

  async function read(query: CatalogQuery, open: OpenRegistry, share: Share): Promise<ResponseBody | undefined> {
    const held = new Reservation(share)
    try {
      return await readCatalog(reader, query, open, (bytes) => held.demand(bytes))
    } finally {
      held.release()
    }
  }

  async function make({ query, open, gzip, share }: BodyRequest): Promise<ResponseBody | undefined> {
    const known = gzip && away() === undefined ? cache.get(buildKey(query, open, false)) : undefined
    const plain = known ?? (await read(query, open, share))
    if (!gzip || plain === undefined || plain.bytes.length < SMALLEST_COMPRESSED) return plain
    const { bytes, revision } = plain
    return {
      bytes: await memory.holdDuring(share, bytes.length, () => compress(bytes, { level: GZIP_LEVEL })),
      gzip,
      revision,
    }
  }

  async function makeAndKeep(key: string, request: BodyRequest) {
    try {
      const body = await make(request)
      if (body?.revision !== undefined && isKept(key, request.query, body)) cache.keep(key, body)
      return body
    } finally {
      making.delete(key)
    }
  }

  /**
   * Tells whether a body goes into the cache. Compressed bodies do, since compressing costs most. Later pages, and a
   * name that is requested for the first time, don't: a client that reads everything once would evict what others
   * repeat.
   */
  function isKept(key: string, { kind, query }: CatalogQuery, { gzip }: ResponseBody): boolean {
    if (gzip) return true
    return kind === 'version'
      ? requested.isRepeated(key)
      : query.after === undefined && (kind === 'list' || requested.isRepeated(key))
  }

  return function findBody(query, open, gzip, share) {
    const key = buildKey(query, open, gzip)
    const known = away() === undefined ? cache.get(key) : undefined
    if (known !== undefined) return known
    let body = making.get(key)
    if (body === undefined) making.set(key, (body = makeAndKeep(key, { query, open, gzip, share })))
    return body
  }
}

function buildKey(query: CatalogQuery, { revision, tag }: OpenRegistry, gzip: boolean): string {
  return `${gzip ? 'gzip' : 'plain'} ${revision}.${tag} ${JSON.stringify(query)}`
}

/** Tells whether an `Accept-Encoding` allows gzip (RFC 9110 section 12.5.3). */
export function acceptsGzip(header: string | undefined): boolean {
  if (header === undefined) return false
  const weights = new Map(
    header.split(',').map((part): [string, number] => {
      const [coding = '', ...parameters] = part.split(';').map((piece) => piece.trim().toLowerCase())
      const weight = parameters.find((parameter) => parameter.startsWith('q='))
      return [coding, weight === undefined ? 1 : Number(weight.slice(2))]
    }),
  )
  return (weights.get('gzip') ?? weights.get('x-gzip') ?? weights.get('*') ?? 0) > 0
}

export interface ResponseBody {
  readonly bytes: Buffer
  readonly gzip: boolean
  /** The registry's revision that it shows; undefined if it shows no version, since versions carry the revision. */
  readonly revision: string | undefined
}

/** The limit for all bodies together, including their keys. */
const MOST_BYTES = 32 * 1024 * 1024
/** An eviction goes down to this size, so that it does not happen with each new body. */
const LEFT_BYTES = MOST_BYTES - MOST_BYTES / 16
/** A larger body would evict too many others. */
const LARGEST_BYTES = MOST_BYTES / 8
/** An entry of the map costs so much besides its key and body. */
const OVERHEAD_BYTES = 300

/** The keys in one half. Both halves have about as many keys as the cache has bodies. */
const HALF_KEYS = 4_096

/** Caches bodies by their keys, and evicts the least recently used. */
export class BodyCache {
  readonly #bodies = new Map<string, ResponseBody>()
  #bytes = 0

  get(key: string): ResponseBody | undefined {
    const body = this.#bodies.get(key)
    if (body === undefined) return undefined
    this.#bodies.delete(key)
    this.#bodies.set(key, body)
    return body
  }

  keep(key: string, body: ResponseBody): void {
    if (body.bytes.length > LARGEST_BYTES || this.#bodies.has(key)) return
    this.#bodies.set(key, { ...body, bytes: copySlice(body.bytes) })
    this.#bytes += measure(key, body)
    if (this.#bytes <= MOST_BYTES) return
    for (const [oldest, its] of this.#bodies) {
      this.#bodies.delete(oldest)
      this.#bytes -= measure(oldest, its)
      if (this.#bytes <= LEFT_BYTES) return
    }
  }
}

/** Copies the bytes if they are a slice, which would keep the whole buffer alive. */
function copySlice(bytes: Buffer): Buffer {
  if (bytes.length === bytes.buffer.byteLength) return bytes
  const own = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(own)
  return own
}

const measure = (key: string, { bytes }: ResponseBody) => bytes.length + key.length + OVERHEAD_BYTES

/** Remembers the latest few thousand keys. When the newer half is full, it becomes the older half, which is dropped. */
export class RecentKeys {
  #newer = new Set<string>()
  #older = new Set<string>()

  /** Adds a key and tells whether it was there before. */
  isRepeated(key: string): boolean {
    if (this.#newer.has(key)) return true
    if (this.#newer.size === HALF_KEYS) {
      this.#older = this.#newer
      this.#newer = new Set()
    }
    this.#newer.add(key)
    return this.#older.has(key)
  }
}

/**
 * Reads from the store what a query asks for. Returns undefined if the caller sees no such entry or version. Throws a
 * PublicError `unavailable`, and what `hold` throws.
 */
async function readCatalog(
  reader: Reader,
  question: CatalogQuery,
  { visible }: OpenRegistry,
  hold: ReserveMemory,
): Promise<ResponseBody | undefined> {
  switch (question.kind) {
    case 'list': {
      const { query } = question
      return buildPageBody(query, await reader.list({ ...query, visible }, hold))
    }
    case 'versions': {
      const { query } = question
      const page = await reader.versions({ ...query, visible }, hold)
      // A page after the last version may be empty. Without a cursor, no version means no entry that the caller sees.
      return page.rows.length === 0 && query.after === undefined ? undefined : buildPageBody(query, page)
    }
    case 'version': {
      const { query } = question
      const row = await reader.version({ ...query, visible }, hold)
      // The JSON text of `{server, _meta}` (or `skill`), with the document as stored.
      return row && buildPlainBody([`{"${query.type}":`, row.document, formatEnd(row)], row.revision)
    }
  }
}

function buildPageBody(
  { type, digest }: { readonly type: EntryType; readonly digest: string },
  { rows, more }: VersionPage,
): ResponseBody {
  const last = more ? rows.at(-1) : undefined
  return buildPlainBody(buildListParts(type, rows, last && encodeCursor(last, digest)), rows[0]?.revision)
}

function buildPlainBody(parts: readonly string[], revision: string | undefined): ResponseBody {
  return { bytes: encodeParts(parts), gzip: false, revision }
}

/** Returns the JSON text of `{servers, metadata}` (or `skills`) in parts. */
function buildListParts(type: EntryType, rows: readonly VersionRow[], nextCursor: string | undefined): string[] {
  const metadata = JSON.stringify({ count: rows.length, nextCursor })
  const parts: string[] = []
  // The text between two documents is one part, which keeps the parts few.
  let between = `{"${type}s":[`
  for (const [index, row] of rows.entries()) {
    parts.push(`${between}${index === 0 ? '' : ','}{"${type}":`, row.document)
    between = formatEnd(row)
  }
  parts.push(`${between}],"metadata":${metadata}}`)
  return parts
}

/**
 * Returns the text that follows a document: its `_meta`, which always has the official block, since VS Code fails
 * without it.
 */
function formatEnd(row: VersionRow): string {
  const { status, status_message, status_changed_at, published_at, updated_at, is_latest, other_meta } = row
  const times = `"statusChangedAt":"${status_changed_at}","publishedAt":"${published_at}","updatedAt":"${updated_at}"`
  const message = status_message === null ? '' : `,"statusMessage":${JSON.stringify(status_message)}`
  const official = `{"status":"${status}",${times},"isLatest":${is_latest === 1}${message}}`
  return `,"_meta":{"${OFFICIAL}":${official}${other_meta === null ? '}' : `,${other_meta.slice(1)}`}}`
}

/**
 * Encodes the parts in UTF-8. Joining them first would copy the text twice, into memory that V8 frees late (135 kB:
 * 0.27 ms against 0.13).
 */
function encodeParts(parts: readonly string[]): Buffer {
  let size = 0
  for (const part of parts) size += Buffer.byteLength(part)
  const bytes = Buffer.allocUnsafe(size)
  let end = 0
  for (const part of parts) end += bytes.write(part, end)
  return bytes
}
