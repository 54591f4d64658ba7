import { Agent, request } from 'undici'
import { decodedBody } from './body-decoder.ts'
import { type ConnectOptions, guardedConnect } from './connect.ts'

interface GuardedFetchOptions extends ConnectOptions {
  /** Largest answer in bytes, decoded; default 1 MiB. */
  readonly maxBytes?: number
  /** Longest wait for the whole answer; default 5 s. */
  readonly timeoutMs?: number
  /** Most connections to one origin at a time; default 4. */
  readonly connections?: number
  /** True if one redirect within the origin is followed: 307 and 308, and for GET 301 and 302. Default: none is. */
  readonly followsWithinOrigin?: boolean
}

interface GuardedAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
}

/**
 * GETs a document from a checked address, or POSTs a body there. Follows no redirect to another origin. Throws an Error
 * for the log.
 */
export interface GuardedFetch {
  (url: string, headers?: Readonly<Record<string, string>>, body?: string): Promise<GuardedAnswer>
  close(): Promise<void>
}

/** Removes the byte order mark that some servers write before JSON, where it means nothing. */
const withoutMark = (text: string): string => (text.startsWith('\ufeff') ? text.slice(1) : text)

const MAX_BYTES = 1024 * 1024
const TIMEOUT_MS = 5_000

/** Makes a function that fetches small documents (discovery, keys) within bounds of size and time. */
export function createGuardedFetch(options: GuardedFetchOptions): GuardedFetch {
  const { maxBytes = MAX_BYTES, timeoutMs = TIMEOUT_MS, connections = 4, followsWithinOrigin, ...connect } = options
  const dispatcher = new Agent({ connect: guardedConnect(connect), connections, pipelining: 1, maxOrigins: 16 })

  async function guardedFetch(
    url: string,
    headers: Readonly<Record<string, string>> = {},
    body?: string,
  ): Promise<GuardedAnswer> {
    const answer = await fetchOnce(url, headers, body)
    const target = followsWithinOrigin === true ? redirectWithin(url, answer, body === undefined) : undefined
    return target === undefined ? answer : fetchOnce(target, headers, body)
  }

  async function fetchOnce(
    url: string,
    headers: Readonly<Record<string, string>>,
    body: string | undefined,
  ): Promise<GuardedAnswer> {
    const answer = await request(url, {
      dispatcher,
      signal: AbortSignal.timeout(timeoutMs),
      headers: { accept: 'application/json', 'accept-encoding': 'gzip', ...headers },
      ...(body !== undefined && { method: 'POST', body }),
    })
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of decodedBody(answer.body, answer.headers['content-encoding'])) {
      size += chunk.length
      if (size > maxBytes) throw new Error(`the answer of ${new URL(url).host} is larger than ${maxBytes} bytes`)
      chunks.push(chunk)
    }
    return {
      status: answer.statusCode,
      headers: answer.headers,
      text: withoutMark(Buffer.concat(chunks).toString('utf8')),
    }
  }
  return Object.assign(guardedFetch, { close: () => dispatcher.destroy() })
}

/** Returns the target of a redirect within the origin that keeps the method; undefined for any other answer. */
function redirectWithin(url: string, { status, headers }: GuardedAnswer, isGet: boolean): string | undefined {
  const keepsMethod = status === 307 || status === 308 || (isGet && (status === 301 || status === 302))
  const { location } = headers
  if (!keepsMethod || typeof location !== 'string') return undefined
  const target = URL.parse(location, url)
  return target?.origin === new URL(url).origin ? target.href : undefined
}

/**
 * Requests only the status, at a checked address. Follows no redirects. Throws an Error for the log. `timeoutMs`: the
 * longest wait for the head of the answer.
 */
export async function guardedStatus(
  url: string,
  {
    method,
    headers,
    timeoutMs,
    ...connect
  }: ConnectOptions & {
    readonly method: 'GET' | 'HEAD'
    readonly headers: Readonly<Record<string, string>>
    readonly timeoutMs: number
  },
): Promise<number> {
  const dispatcher = new Agent({ connect: guardedConnect(connect), connections: 1 })
  try {
    const answer = await request(url, { dispatcher, method, headers, signal: AbortSignal.timeout(timeoutMs) })
    answer.body.on('error', () => undefined)
    return answer.statusCode
  } finally {
    // The body is of no interest, however long it is.
    await dispatcher.destroy()
  }
}
