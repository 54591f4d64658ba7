import { createHash } from 'node:crypto'
import { validateHeaderName, validateHeaderValue } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { backoffDelay } from '../../../retry/backoff.ts'
import { type Budget, createBudget } from '../format/budget.ts'
import { readSmallFile } from '../format/file-content.ts'
import type { LocationOf, Pass, ReadChange } from '../format/source.ts'
import { SourceError, type SourceErrorCode } from '../format/source-error.ts'
import { openSpool, type Spool } from '../format/spool.ts'
import { createHttpGet, type HttpGet } from './http-get.ts'
import { type FetchedPage, type ListCursor, type PolledList, pollList } from './poll-list.ts'

/** The progress in following another registry. */
interface ApiCursor {
  /** The time of the last full read; absent if every read is full. */
  readonly fullAt?: number
  readonly servers: ListCursor
  /** `false` if the upstream has no list of skills. Absent if that is not known. */
  readonly skills?: ListCursor | false
}

/** The interval of full reads: a version that an upstream drops without a tombstone is missed until then. */
const FULL_EVERY_MS = 6 * 60 * 60 * 1000
const A_FILE = 'a file of headers'
/** The size of 100 of the largest documents. A page waits on the disk, never in memory. */
const LARGEST_PAGE = 104 * 1024 * 1024
/**
 * The errors of a missing list: `refused` from servers that know the path. If skills came before, only `refused`
 * counts: a proxy's error page would remove them all.
 */
const NO_SUCH_LIST: readonly SourceErrorCode[] = ['refused', 'forbidden', 'wrong_shape', 'not_json']

/** The statuses of a response to an unknown parameter. */
const NO_SUCH_QUERY: ReadonlySet<number | undefined> = new Set([400, 422])

const TRIES = 4
/** For a wait longer than `longest`, the schedule tries again. */
const RETRY = { first: 1_000, longest: 15_000 }
const CURABLE: readonly SourceErrorCode[] = ['unreachable', 'timed_out', 'upstream_failed', 'rate_limited']

type Header = readonly [name: string, value: string]

/**
 * Reads another registry (MCP registry API v0.1) page by page: all of it, or the changes since the last pass. A full
 * read follows now and then. Skills come too if the upstream has our extension.
 */
export async function pollApi(location: LocationOf<'api'>, pass: Pass): Promise<ReadChange | undefined> {
  const { signal } = pass
  const before = pass.cursor === undefined ? undefined : (JSON.parse(pass.cursor) as ApiCursor)
  const { maxBytes } = pass
  const httpGet = pass.parts.use(createHttpGet({ ...location, maxBytes: Math.min(LARGEST_PAGE, maxBytes), signal }))
  const headers = await readHeaders(location)
  const pageGetter = () => getPages((url, take) => httpGet(url, headers, take), pass)
  const now = Date.now()
  // A negative age means that our clock was ahead then.
  const age = now - (before?.fullAt ?? 0)
  let changesOnly = before?.servers.since !== undefined && age >= 0 && age < FULL_EVERY_MS
  // People write the base with or without a slash at its end.
  const base = `${location.endpoint.replace(/\/+$/, '')}/v0.1`

  const serverList = { kind: 'servers', url: `${base}/servers`, before: before?.servers, maxBytes } as const
  const servers = await pollList({ ...serverList, changesOnly, get: pageGetter() }).catch((error: unknown) => {
    // The upstream has times of change, but can't filter by them.
    if (!changesOnly || !(error instanceof SourceError) || !NO_SUCH_QUERY.has(error.status)) throw error
    changesOnly = false
    return pollList({ ...serverList, changesOnly, get: pageGetter() })
  })
  const skills = asksForSkills(before, changesOnly)
    ? await findSkills(
        {
          kind: 'skills',
          url: `${base}/x/portico/skills`,
          before: before?.skills || undefined,
          changesOnly,
          maxBytes,
          get: pageGetter(),
        },
        pass.holdsSkills ? ['refused'] : NO_SUCH_LIST,
      )
    : undefined
  const lists = skills === undefined ? [servers] : [servers, skills]
  if (!lists.some(({ changed }) => changed)) return undefined

  return async function readLists() {
    // Changes are added to what the source has.
    const budget = changesOnly ? createBudget(maxBytes, await pass.held()) : createBudget(maxBytes)
    return {
      complete: !changesOnly,
      batches: readBatches(changesOnly ? lists.filter(({ changed }) => changed) : lists, budget),
      cursor() {
        const cursors = { servers: servers.cursor(), skills: skills?.cursor() ?? false }
        const fullAt = cursors.servers.since === undefined ? {} : { fullAt: changesOnly ? before?.fullAt : now }
        return JSON.stringify({ ...fullAt, ...cursors } as ApiCursor)
      },
    }
  }
}

async function* readBatches(lists: readonly PolledList[], budget: Budget) {
  for (const list of lists) yield* list.pages(budget)
}

type GetInto = (url: string, take: (piece: Buffer) => Promise<void>) => ReturnType<HttpGet>

function getPages(get: GetInto, pass: Pass): (url: string) => Promise<FetchedPage> {
  let spool: Spool | undefined

  return async function getPage(url) {
    const file = (spool ??= await openSpool(pass))
    const fetched = await getWithRetries(async () => {
      const digest = createHash('sha256')
      let size = 0
      await file.clear()
      await get(url, (piece) => {
        digest.update(piece)
        size += piece.length
        return file.write(piece)
      })
      return { hash: digest.digest('base64url'), size }
    }, pass.signal)
    return { ...fetched, read: file.read }
  }
}

/** Tells whether to ask for skills. An upstream without skills is asked again at each full read. */
function asksForSkills(before: ApiCursor | undefined, changesOnly: boolean): boolean {
  if (before?.skills === false) return before.fullAt !== undefined && !changesOnly
  return true
}

/** Finds the list of skills. Undefined if the upstream has none (an error with a code in `absent`). */
async function findSkills(
  options: Parameters<typeof pollList>[0],
  absent: readonly SourceErrorCode[],
): Promise<PolledList | undefined> {
  try {
    return await pollList(options)
  } catch (error) {
    if (options.before === undefined && error instanceof SourceError && absent.includes(error.code)) return undefined
    throw error
  }
}

async function readHeaders({
  headersFile,
  headers = [],
}: LocationOf<'api'>): Promise<Readonly<Record<string, string>>> {
  const own = await Promise.all(
    headers.map(async ({ name, valueFile }) => buildHeader(name, (await readSmallFile(valueFile, A_FILE)).trim())),
  )
  return {
    ...(headersFile === undefined ? {} : parseHeaders(await readSmallFile(headersFile, A_FILE))),
    ...Object.fromEntries(own),
  }
}

/** GETs, and retries transient errors, so that a failed page does not cost those before it. Throws a SourceError. */
async function getWithRetries<T>(get: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await get()
    } catch (error) {
      if (!(error instanceof SourceError) || tries === TRIES || !CURABLE.includes(error.code)) throw error
      const wait = Math.max(backoffDelay(tries - 1, RETRY), error.retryAfterMs ?? 0)
      if (wait > RETRY.longest) throw error
      await delay(wait, undefined, { signal }).catch(() => {
        throw signal.reason
      })
    }
  }
}

function checkedHeader(name: string, value: string): Header | undefined {
  try {
    validateHeaderName(name)
    validateHeaderValue(name, value)
    return [name.toLowerCase(), value]
  } catch {
    // Node refuses the name or the value; the caller says which file it is from.
    return undefined
  }
}

export function buildHeader(name: string, value: string): Header {
  const header = checkedHeader(name, value)
  if (header === undefined) throw new SourceError('file_unreadable', `the file of ${name} holds no header value`)
  return header
}

/**
 * Reads a file of headers, one `Name: value` a line; empty lines and `#` are ignored. Throws a SourceError that names
 * the line.
 */
export function parseHeaders(text: string): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {}
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue
    const at = line.indexOf(':')
    const header = checkedHeader(line.slice(0, Math.max(at, 0)).trim(), line.slice(at + 1).trim())
    if (header === undefined)
      throw new SourceError('file_unreadable', `line ${index + 1} of the headers file is no header (Name: value)`)
    headers[header[0]] = header[1]
  }
  return headers
}
