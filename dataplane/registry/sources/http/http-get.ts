import { Agent, type Dispatcher, request } from 'undici'
import { decodedBody, UndecodableBody } from '../../../net/body-decoder.ts'
import { AddressRefused, guardedConnect } from '../../../net/connect.ts'
import { tooManyBytes } from '../format/budget.ts'
import { SourceError } from '../format/source-error.ts'

interface HttpAnswer {
  readonly status: number
  readonly headers: Dispatcher.ResponseData['headers']
}

interface HttpGetOptions {
  readonly publicOnly: boolean
  readonly timeoutMs: number
  readonly maxBytes: number
  readonly signal: AbortSignal
}

/** GETs a URL and passes its decoded body to `take`. Throws a SourceError for any status but 200 and 304. */
export interface HttpGet extends AsyncDisposable {
  (url: string, headers: Headers, take: TakePiece): Promise<HttpAnswer>
}

type Headers = Readonly<Record<string, string>>
type TakePiece = (piece: Buffer) => Promise<void> | void

const REDIRECTS = 5

/**
 * Creates a function that GETs within limits of time and size. It follows redirects, but not to link-local addresses or
 * metadata services, and sends no headers to another origin. With `publicOnly` all addresses must be public.
 */
export function createHttpGet({ publicOnly, timeoutMs, maxBytes, signal }: HttpGetOptions): HttpGet {
  const bounds = { connections: 2, pipelining: 1, maxOrigins: 16 }
  const guarded = new Agent({ ...bounds, connect: guardedConnect({ allowPrivateIP: !publicOnly }) })
  const trusted = publicOnly ? guarded : new Agent({ ...bounds, connect: guardedConnect({ allowAny: true }) })

  async function getOnce(
    url: string,
    headers: Headers,
    isFirst: boolean,
    take: TakePiece,
  ): Promise<HttpAnswer | string> {
    const answer = await request(url, {
      dispatcher: isFirst ? trusted : guarded,
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      headers: { accept: 'application/json', 'accept-encoding': 'gzip', 'user-agent': 'portico', ...headers },
    })
    const { statusCode: status, body } = answer
    const { location } = answer.headers
    if (status === 200 || status === 304) {
      await passOn(maxBytes, decodedBody(body, answer.headers['content-encoding']), take)
      return { status, headers: answer.headers }
    }
    // The body of an error is not used. If it is small, this keeps the connection.
    await body.dump()
    if (status < 300 || status > 399 || typeof location !== 'string')
      throw buildStatusError(url, { status, headers: answer.headers })
    return location
  }

  async function getFollowing(url: string, headers: Headers, take: TakePiece): Promise<HttpAnswer> {
    const { origin } = new URL(url)
    let at = url
    for (let hops = 0; hops <= REDIRECTS; hops++) {
      const isHome = new URL(at).origin === origin
      const answer = await getOnce(at, isHome ? headers : {}, isHome, take)
      if (typeof answer !== 'string') return answer
      at = new URL(answer, at).href
      if (!/^https?:/.test(at)) throw new SourceError('refused', 'it redirects to a URL that is neither http nor https')
    }
    throw new SourceError('refused', `it redirects more than ${REDIRECTS} times`)
  }

  async function httpGet(url: string, headers: Headers, take: TakePiece): Promise<HttpAnswer> {
    try {
      return await getFollowing(url, headers, take)
    } catch (error) {
      throw signal.aborted ? signal.reason : buildFailure(error as Failure, timeoutMs)
    }
  }

  return Object.assign(httpGet, {
    async [Symbol.asyncDispose]() {
      await Promise.all([guarded.destroy(), trusted.destroy()])
    },
  })
}

/** Passes a body to `take`, without the byte order mark that some servers write before JSON. */
async function passOn(maxBytes: number, body: AsyncIterable<Buffer>, take: TakePiece): Promise<void> {
  let size = 0
  for await (const piece of body) {
    const isFirst = size === 0
    size += piece.length
    if (size > maxBytes) throw tooManyBytes(maxBytes)
    await take(isFirst ? skipMark(piece) : piece)
  }
}

const skipMark = (piece: Buffer): Buffer => (piece.indexOf('\ufeff') === 0 ? piece.subarray(3) : piece)

/** Builds the error for a status. SourceError removes the secrets from the URL in its message. */
function buildStatusError(url: string, { status, headers }: HttpAnswer): SourceError {
  const options = { retryAfterMs: readRetryAfter(headers['retry-after'], Date.now()) }
  const answers = `the upstream answers ${status} for ${url}`
  if (status === 429) return new SourceError('rate_limited', 'the upstream asks for fewer requests (429)', options)
  if (status >= 500) return new SourceError('upstream_failed', answers, options)
  if (status === 401 || status === 403) return new SourceError('forbidden', answers)
  return new SourceError('refused', answers, { status })
}

interface Failure extends Error {
  readonly code?: string
  readonly cause?: Error & { readonly code?: string }
}

function buildFailure(error: Failure, timeoutMs: number): SourceError {
  if (error instanceof SourceError) return error
  if (error instanceof AddressRefused || error.cause instanceof AddressRefused)
    return new SourceError('private_address', 'it is at, or leads to, an address that this source may not reach')
  if (error instanceof UndecodableBody) return new SourceError('upstream_failed', error.message, { cause: error })
  if (error.name === 'TimeoutError') return new SourceError('timed_out', `no complete answer within ${timeoutMs} ms`)
  return new SourceError('unreachable', `it can’t be reached (${error.code ?? error.cause?.code ?? error.name})`, {
    cause: error,
  })
}

/** Reads Retry-After, seconds or a date (RFC 9110 section 10.2.3), as milliseconds from now. */
export function readRetryAfter(header: string | string[] | undefined, now: number): number | undefined {
  if (typeof header !== 'string') return undefined
  if (/^\d+$/.test(header)) return Number(header) * 1000
  const date = /^[A-Z][a-z]{2}/.test(header) ? Date.parse(header) : Number.NaN
  return Number.isNaN(date) ? undefined : Math.max(0, date - now)
}
