import type { MakeLink } from '../upstream-tokens/index.ts'

/** The authenticated caller for whom a credential is obtained, with the verified token of the call. */
export interface Subject {
  readonly issuer: string
  readonly subject: string
  readonly claims: Readonly<Record<string, unknown>>
  /** The token is sent to the token endpoint of a strategy that needs it, and nowhere else. */
  readonly token: string
  /** The login of the token, if the gateway's own authorization server issued it. */
  readonly login?: string | undefined
  /** A flat list of the call's headers for the server itself, if the configuration forwards them. */
  readonly forwarded?: readonly string[]
}

export interface Credential {
  readonly headers: readonly string[]
  /** The expiry in milliseconds since 1970; undefined if the provider does not say. */
  readonly expiresAt: number | undefined
  /** The time in milliseconds for which it is used before it is requested again; absent: until it expires. */
  readonly keepMs?: number
  /** Signs each request, if the credential is not a fixed header. */
  readonly sign?: SignRequest
}

interface UnsignedRequest {
  readonly method: string
  readonly host: string
  readonly path: string
  readonly headers: readonly string[]
  readonly body?: string | null | undefined
}

/** Returns the headers that sign a request, as a flat list. They replace others with their names. */
export type SignRequest = (request: UnsignedRequest) => readonly string[]

/** The stored source of a credential. It may change or be removed before the credential expires. */
export interface CredentialSource {
  /** Returns the digest of the source; undefined if there is none. Rejects with a CredentialError. */
  digest(subject: Subject): Promise<string | undefined>
  /** Refreshes a source that is about to expire. Rejects with a CredentialError if no usable one results. */
  refresh(subject: Subject): Promise<unknown>
}

/** Obtains the credentials for one backend. */
export interface Strategy {
  /** The identity of its settings: strategies with equal keys give the same caller the same credential. */
  readonly key: string
  readonly isFinal?: boolean
  readonly isOfLogin?: boolean
  readonly signs?: boolean
  /** Returns the claims that the credential depends on: tokens of one caller that differ in them are kept apart. */
  variant?(subject: Pick<Subject, 'claims'>): string
  /**
   * Returns a digest of all claims that the credential may depend on at any reader: it serves no token that differs.
   * Sessions survive a difference.
   */
  digest?(subject: Pick<Subject, 'claims'>): string
  readonly source?: CredentialSource | undefined
  /** Obtains a credential. `refused`: the one that the backend has rejected. Rejects with a CredentialError. */
  obtain(subject: Subject, refused?: Credential): Promise<Credential>
  /** Obtains the gateway's own credential, for probes; absent if there is none of that kind. */
  readonly obtainOwn?: (() => Promise<Credential>) | undefined
  close(): Promise<void>
}

/** The reason why there is no credential. `message` is for the log, `text` a fixed clause for the caller. */
export class CredentialError extends Error {
  override readonly name = 'CredentialError'
  readonly text: string
  readonly isPassing: boolean
  /** Makes the link by which the user gets a token; absent if the user can't fix this. */
  readonly link: MakeLink | undefined

  constructor(
    message: string,
    options: {
      readonly text: string
      readonly isPassing: boolean
      readonly cause?: unknown
      readonly link?: MakeLink | undefined
    },
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.text = options.text
    this.isPassing = options.isPassing
    this.link = options.link
  }
}
