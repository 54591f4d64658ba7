import { IncomingMessage, type OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { PublicError } from '../../server/errors.ts'
import type { Library } from './library.ts'

/** A request as the library gets it: nothing of it comes from a client unless it is put in here. */
export interface InnerRequest {
  readonly method: 'GET' | 'POST'
  /** Path below the issuer, with a query. */
  readonly path: string
  /** Of a form. */
  readonly body?: string
  /** Cookies of the library itself. */
  readonly cookie?: string
}

export interface InnerResponse {
  readonly status: number
  /** Where it redirects to. */
  readonly location: string | undefined
  readonly contentType: string | undefined
  readonly body: string
}

/** Rejects with a PublicError where one has failed the request inside the library, such as storage that is away. */
type Send = (request: InnerRequest) => Promise<InnerResponse>

/**
 * Makes the function that hands requests to the library. It sees the issuer's host and scheme and nothing of what a client
 * says of either: URLs that it makes follow the Host header. Its cookies stay here.
 */
export function bridgeTo(library: Library, issuer: string): Send {
  const { host, protocol } = new URL(issuer)
  const handle = library.callback()
  // The library answers whatever fails in it alike, and tells of the reason before that answer ends.
  const failures = new WeakMap<IncomingMessage, PublicError>()
  library.on('server_error', ({ req }, error) => {
    if (error instanceof PublicError) failures.set(req, error)
  })
  return function send({ method, path, body = '', cookie }) {
    const incoming = new IncomingMessage(new Socket())
    incoming.method = method
    incoming.url = path
    incoming.headers = {
      host,
      'x-forwarded-proto': protocol.slice(0, -1),
      accept: 'application/json',
      ...(method === 'POST' && {
        'content-type': 'application/x-www-form-urlencoded',
        'content-length': String(Buffer.byteLength(body)),
      }),
      ...(cookie !== undefined && { cookie }),
    }
    incoming.push(body === '' ? null : body)
    if (body !== '') incoming.push(null)
    const outgoing = new CapturedResponse(incoming)
    return new Promise((resolve, reject) => {
      outgoing.captured = (response) => {
        const failure = failures.get(incoming)
        if (failure === undefined) resolve(response)
        else reject(failure)
      }
      handle(incoming, outgoing).catch(reject)
    })
  }
}

/** A response that goes nowhere: what is written into it is handed on whole. */
class CapturedResponse extends ServerResponse {
  captured: (response: InnerResponse) => void = () => {
    // Set before the request is handled.
  }
  readonly #chunks: Buffer[] = []

  override writeHead(status: number, ...rest: unknown[]): this {
    this.statusCode = status
    const headers = rest.find((value) => typeof value === 'object' && value !== null) as OutgoingHttpHeaders | undefined
    for (const [name, value] of Object.entries(headers ?? {})) if (value !== undefined) this.setHeader(name, value)
    return this
  }

  override write(chunk: unknown): boolean {
    if (typeof chunk === 'string' || chunk instanceof Uint8Array) this.#chunks.push(Buffer.from(chunk as string))
    return true
  }

  override end(chunk?: unknown): this {
    this.write(chunk)
    const header = (name: string) => this.getHeader(name)?.toString()
    this.captured({
      status: this.statusCode,
      location: header('location'),
      contentType: header('content-type'),
      body: Buffer.concat(this.#chunks).toString(),
    })
    return this
  }
}
