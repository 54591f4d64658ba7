import { IncomingMessage, type OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
// @ts-expect-error: the package has no types; the ones used here are declared below.
import OidcProvider, { errors as oidcErrors } from 'oidc-provider'
import { PublicError } from '../../server/errors.ts'

// The types of the used part of the npm package `oidc-provider`, as its documentation describes them.

export interface LibraryClient {
  readonly redirectUris: readonly string[]
  readonly clientAuthMethod: string
  grantTypeAllowed(type: string): boolean
}

interface LibraryGrant {
  addOIDCScope(scope: string): void
  addResourceScope(resource: string, scope: string): void
  save(): Promise<string>
}

export interface LibraryInteraction {
  readonly uid: string
  readonly exp: number
  readonly params: Readonly<Record<string, unknown>>
  result?: object
  save(ttlS: number): Promise<void>
  destroy(): Promise<void>
}

export interface LibraryToken {
  readonly kind: string
  readonly grantId?: string
  readonly rotations?: number
}

/** Koa's context with the library's additions. */
export interface LibraryContext {
  type: string
  body: unknown
  readonly oidc: {
    readonly params: Readonly<Record<string, unknown>>
    readonly entities: { readonly Interaction?: LibraryInteraction }
  }
}

/** Stores the records of one model. Times are in seconds. */
export interface LibraryAdapter {
  upsert(id: string, payload: Payload, expiresIn?: number): Promise<void>
  find(id: string): Promise<Payload | undefined>
  findByUid(uid: string): Promise<undefined>
  findByUserCode(code: string): Promise<undefined>
  consume(id: string): Promise<void>
  destroy(id: string): Promise<void>
  revokeByGrantId(grantId: string): Promise<void>
}

/** A record of a model; only the library reads its members. */
export type Payload = Record<string, unknown>

export interface Library {
  /** True if X-Forwarded headers are trusted. The gateway always sets them itself. */
  proxy: boolean
  callback(): (request: IncomingMessage, response: ServerResponse) => Promise<void>
  on(event: 'server_error', listener: (context: { readonly req: IncomingMessage }, error: Error) => void): void
  readonly Client: { readonly prototype: { redirectUriAllowed(this: LibraryClient, uri: string): boolean } }
  readonly Grant: new (properties: { jti: string; accountId: string; clientId: string }) => LibraryGrant
  readonly Interaction: { find(uid: string): Promise<LibraryInteraction | undefined> }
  readonly RefreshToken: { readonly prototype: { generateTokenId(this: LibraryToken): string } }
}

/** Creates the library's server. Throws if the settings are invalid. */
export const createLibrary = OidcProvider as unknown as { new (issuer: string, settings: object): Library }

/** The library's errors. If a callback throws one, it becomes the `error` of the response. */
export const { InvalidGrant, InvalidRequest, InvalidTarget } = oidcErrors as {
  readonly InvalidGrant: new (detail?: string) => Error
  readonly InvalidRequest: new (description?: string) => Error
  readonly InvalidTarget: new (description?: string) => Error
}

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
