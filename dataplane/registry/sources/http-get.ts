import { Agent, type Dispatcher, request } from 'undici'
import { guardedConnect } from '../../net/connect.ts'
import { AddressRefused } from '../../net/dispatcher.ts'
import { retryAfterOf } from './retry-after.ts'
import { SourceError } from './source-error.ts'

export interface HttpAnswer {
  readonly status: number
  readonly headers: Dispatcher.ResponseData['headers']
  readonly bytes: Buffer
}

export interface HttpGetOptions {
  readonly publicOnly: boolean
  /** Longest wait for one whole answer. */
  readonly timeoutMs: number
  readonly maxBytes: number
  readonly signal: AbortSignal
}

/** GETs what a source serves. */
export interface HttpGet extends AsyncDisposable {
  /** Gives answers of status 200 and 304; anything else is a SourceError. */
  (url: string, headers: Readonly<Record<string, string>>): Promise<HttpAnswer>
}

const REDIRECTS = 5

/**
 * Makes a function that GETs within bounds of time, size and, for a source that is held to it, of address. It follows
 * redirects; to another origin without the headers that were meant for the first.
 */
export function createHttpGet({ publicOnly, timeoutMs, maxBytes, signal }: HttpGetOptions): HttpGet {
  const dispatcher = new Agent({
    connect: guardedConnect({ allowPrivateIP: !publicOnly }),
    connections: 2,
    pipelining: 1,
    maxOrigins: 16,
  })

  async function once(url: string, headers: Readonly<Record<string, string>>) {
    const answer = await request(url, {
      dispatcher,
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      headers: { accept: 'application/json', 'user-agent': 'portico', ...headers },
    })
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > maxBytes) throw new SourceError('too_large', `the answer has more than ${maxBytes} bytes`)
      chunks.push(chunk)
    }
    return { status: answer.statusCode, headers: answer.headers, bytes: Buffer.concat(chunks) }
  }

  async function httpGet(url: string, headers: Readonly<Record<string, string>>): Promise<HttpAnswer> {
    try {
      let at = url
      for (let hops = 0; hops <= REDIRECTS; hops++) {
        const answer = await once(at, new URL(at).origin === new URL(url).origin ? headers : {})
        const { location } = answer.headers
        if (answer.status === 200 || answer.status === 304) return answer
        if (answer.status < 300 || answer.status > 399 || typeof location !== 'string') throw refusal(answer)
        at = new URL(location, at).href
        if (!/^https?:/.test(at)) throw new SourceError('refused', 'it redirects to what is neither http nor https')
      }
      throw new SourceError('refused', `it redirects more than ${REDIRECTS} times`)
    } catch (error) {
      throw signal.aborted ? signal.reason : failureOf(error as Failure, timeoutMs)
    }
  }
  return Object.assign(httpGet, { [Symbol.asyncDispose]: () => dispatcher.destroy() })
}

function refusal({ status, headers }: HttpAnswer): SourceError {
  const options = { retryAfterMs: retryAfterOf(headers['retry-after'], Date.now()) }
  if (status === 429) return new SourceError('rate_limited', 'the upstream asks for fewer requests (429)', options)
  if (status >= 500) return new SourceError('upstream_failed', `the upstream answers ${status}`, options)
  if (status === 401 || status === 403) return new SourceError('forbidden', `the upstream answers ${status}`)
  return new SourceError('refused', `the upstream answers ${status}`)
}

interface Failure extends Error {
  readonly code?: string
  readonly cause?: Error & { readonly code?: string }
}

function failureOf(error: Failure, timeoutMs: number): SourceError {
  if (error instanceof SourceError) return error
  if (error instanceof AddressRefused || error.cause instanceof AddressRefused)
    return new SourceError('private_address', 'it is at an address that sources of the API may not reach')
  if (error.name === 'TimeoutError') return new SourceError('timed_out', `no whole answer within ${timeoutMs} ms`)
  return new SourceError('unreachable', `it can’t be reached (${error.code ?? error.cause?.code ?? error.name})`, {
    cause: error,
  })
}
