import { IncomingMessage, type OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { PublicError } from '../../server/errors.ts'
import type { Library } from './library.ts'

/** A request to the library. It contains client input only where that is copied explicitly. */
export interface InnerRequest {
  readonly method: 'GET' | 'POST'
  /** The path below the issuer, with a query. */
  readonly path: string
  readonly body?: string
  /** The library's own cookies. */
  readonly cookie?: string
}

export interface InnerResponse {
  readonly status: number
  /** The URL of a redirect. */
  readonly location: string | undefined
  readonly contentType: string | undefined
  readonly body: string
}

/** Sends a request to the library. Rejects with the PublicError of a failure inside, such as an outage of the store. */
type Send = (request: InnerRequest) => Promise<InnerResponse>

/**
 * Returns the function that passes requests to the library. The library sees the host and scheme of the issuer and
 * never those of the request, because it builds URLs from the Host header. Its cookies stay in this process.
 */
export function bridgeTo(library: Library, issuer: string): Send {
  const { host, protocol } = new URL(issuer)
  const handle = library.callback()
  // The library gives all failures the same response and reports the reason by this event before the response ends.
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

/** A response without a socket, which collects everything that is written. */
class CapturedResponse extends ServerResponse {
  captured: (response: InnerResponse) => void = () => {
    // This no-op is replaced before the request is handled.
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
