import type { IncomingMessage, ServerResponse } from 'node:http'
// @ts-expect-error: the package has no types; the ones used here are declared below.
import OidcProvider, { errors as oidcErrors } from 'oidc-provider'

// The types of the used part of the npm package `oidc-provider`, as its documentation describes them.

/** The stored metadata of a client (RFC 7591 section 2). */
type ClientMetadata = Readonly<Record<string, unknown>>

export interface LibraryClient {
  readonly clientId: string
  readonly clientName?: string
  readonly redirectUris: readonly string[]
  readonly clientAuthMethod: string
  readonly scope?: string
  grantTypeAllowed(type: string): boolean
  redirectUriAllowed(uri: string): boolean
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
  readonly Client: {
    find(id: string): Promise<LibraryClient | undefined>
    validate(metadata: ClientMetadata): Promise<void>
    readonly prototype: { redirectUriAllowed(this: LibraryClient, uri: string): boolean }
  }
  readonly Grant: {
    new (properties: { jti: string; accountId: string; clientId: string }): LibraryGrant
    readonly adapter: LibraryAdapter
  }
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
