import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { parseHeaders } from './headers-file.ts'
import { createHttpGet, type HttpGet } from './http-get.ts'
import { type Page, parsePage } from './parse.ts'
import type { Content, Pass, PlaceOf } from './source.ts'
import { SourceError, type SourceErrorCode } from './source-error.ts'

/** How far another registry was followed. */
interface Mark {
  /** When everything was last read. */
  readonly fullAt: number
  /** The latest time of change that the upstream told, by its own clock; absent where it tells none. */
  readonly since?: string
  /** Hash of what was read last where that was one page. */
  readonly tail?: string
}

/** Everything is read anew so often: a version that an upstream drops without a word is missed until then. */
const FULL_EVERY_MS = 6 * 60 * 60 * 1000
/** A change may show up in an upstream later than its time says, while the transaction that makes it runs. */
const OVERLAP_MS = 60_000
const PAGE_SIZE = 100
/** 100 documents of the largest size that is kept. */
const LARGEST_PAGE = 104 * 1024 * 1024
const MOST_PAGES = 20_000
const TRIES = 4
const FIRST_RETRY_MS = 500
/** What asks for a longer wait is tried again by the schedule. */
const LONGEST_RETRY_MS = 15_000
const CURABLE: readonly SourceErrorCode[] = ['unreachable', 'timed_out', 'upstream_failed', 'rate_limited']

/**
 * Reads another registry (MCP registry API v0.1) page by page: all of it, or what has changed since the last pass where
 * the upstream tells times of change. Everything is read again now and then, and where the mark says nothing.
 */
export async function readApi(place: PlaceOf<'api'>, pass: Pass): Promise<Content | undefined> {
  const { mark, signal } = pass
  const before = mark === undefined ? undefined : (JSON.parse(mark) as Mark)
  const get = createHttpGet({ ...place, maxBytes: LARGEST_PAGE, signal })
  const now = Date.now()
  const changes = before?.since !== undefined && now - before.fullAt < FULL_EVERY_MS ? before : undefined
  const query = changes?.since === undefined ? '' : changesQuery(changes.since)
  let newest = changes?.since

  const headers = await headersOf(place)
  const pages = readPages(get, `${base(place.endpoint)}/v0.1/servers?limit=${PAGE_SIZE}${query}`, headers, signal)
  try {
    const { value: first } = (await pages.next()) as { value: Fetched }
    const isOnly = first.page.nextCursor === undefined
    if (isOnly && (first.hash === before?.tail || (changes !== undefined && first.page.count === 0))) {
      await get[Symbol.asyncDispose]()
      return undefined
    }

    async function* batches() {
      try {
        for (let fetched: Fetched | undefined = first; fetched !== undefined; ) {
          const { newest: time } = fetched.page
          if (time !== undefined && (newest === undefined || time > newest)) newest = time
          yield fetched.page
          fetched = (await pages.next()).value as Fetched | undefined
        }
      } finally {
        await get[Symbol.asyncDispose]()
      }
    }
    return {
      complete: changes === undefined,
      batches: batches(),
      mark: () =>
        JSON.stringify({
          fullAt: changes?.fullAt ?? now,
          ...(newest !== undefined && { since: newest }),
          // The next pass asks the same again only where no later time was seen.
          ...(isOnly && newest === changes?.since && { tail: first.hash }),
        } satisfies Mark),
    }
  } catch (error) {
    await get[Symbol.asyncDispose]()
    throw error
  }
}

interface Fetched {
  readonly page: Page
  readonly hash: string
}

async function* readPages(
  get: HttpGet,
  url: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): AsyncGenerator<Fetched, undefined> {
  const seen = new Set<string>()
  let cursor: string | undefined
  for (let pages = 0; pages < MOST_PAGES; pages++) {
    const at = cursor === undefined ? url : `${url}&cursor=${encodeURIComponent(cursor)}`
    const bytes = await getPatiently(get, at, headers, signal)
    const page = parsePage(bytes)
    yield { page, hash: hash('sha256', bytes, 'base64url') }

    cursor = page.nextCursor
    if (cursor === undefined) return undefined
    if (seen.has(cursor)) throw new SourceError('endless', 'the upstream gives a cursor for the second time')
    seen.add(cursor)
  }
  throw new SourceError('endless', `the upstream has more than ${MOST_PAGES} pages`)
}

async function getPatiently(
  get: HttpGet,
  url: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Buffer> {
  for (let tries = 1; ; tries++) {
    try {
      return (await get(url, headers)).bytes
    } catch (error) {
      if (!(error instanceof SourceError) || tries === TRIES || !CURABLE.includes(error.code)) throw error
      const wait = Math.max(FIRST_RETRY_MS * 2 ** (tries - 1) * (1 + Math.random()), error.retryAfterMs ?? 0)
      if (wait > LONGEST_RETRY_MS) throw error
      await delay(wait, undefined, { signal }).catch(() => {
        throw signal.reason
      })
    }
  }
}

function changesQuery(since: string): string {
  const from = new Date(Date.parse(since) - OVERLAP_MS).toISOString()
  return `&updated_since=${encodeURIComponent(from)}&include_deleted=true`
}

/** People give the base with or without the slash at its end. */
const base = (endpoint: string) => endpoint.replace(/\/+$/, '')

async function headersOf({ headersFile, headers = [] }: PlaceOf<'api'>): Promise<Readonly<Record<string, string>>> {
  const lines = await Promise.all(
    headers.map(async ({ name, valueFile }) => `${name}: ${(await readText(valueFile)).trim()}`),
  )
  return {
    ...(headersFile === undefined ? {} : parseHeaders(await readText(headersFile))),
    ...parseHeaders(lines.join('\n')),
  }
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new SourceError('file_unreadable', `a file of headers can’t be read (${code})`)
  }
}
