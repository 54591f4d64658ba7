import type { MakeLink } from '../upstream-tokens/index.ts'

/** The authenticated caller for whom a credential is obtained, and the verified token that came with the call. */
export interface Subject {
  readonly issuer: string
  readonly subject: string
  readonly claims: Readonly<Record<string, unknown>>
  /** Goes to the token endpoint of a strategy that needs it, and nowhere else. */
  readonly token: string
  /** The login that the token belongs to, where the gateway's own authorization server has issued it. */
  readonly login?: string | undefined
  /** Flat list of the headers that the call brings for the server itself, where that is how it is configured. */
  readonly forwarded?: readonly string[]
}

/** What a backend gets for one caller. */
export interface Credential {
  /** Flat list of header names and values. */
  readonly headers: readonly string[]
  /** When it ends, in milliseconds since 1970; undefined where the provider does not say. */
  readonly expiresAt: number | undefined
  /** How long it is used before it is asked for again, in milliseconds; absent: until its end. */
  readonly keepMs?: number
  /** Signs each request, where the credential is no fixed header. */
  readonly sign?: SignRequest
}

/** A request that is about to be sent. */
interface UnsignedRequest {
  readonly method: string
  /** With its port, as the Host header has it. */
  readonly host: string
  /** With its query. */
  readonly path: string
  /** Flat list of names and values. */
  readonly headers: readonly string[]
  readonly body?: string | null | undefined
}

/** Gives the headers that sign a request, as a flat list; they replace others of their names. */
export type SignRequest = (request: UnsignedRequest) => readonly string[]

/** What a credential is obtained for, where that is stored and may change, or be taken away, before the credential ends. */
export interface CredentialSource {
  /** Its digest; undefined where there is none. Rejects with a CredentialError where that can't be said. */
  digest(subject: Subject): Promise<string | undefined>
  /** Has what is about to end replaced. Rejects with a CredentialError where there is nothing that can be used. */
  refresh(subject: Subject): Promise<unknown>
}

/** How the credentials for one backend are obtained. */
export interface Strategy {
  /** Identity of its settings: strategies with equal keys give the same caller the same credential. */
  readonly key: string
  /** Whether there is never another credential in the place of one that was refused. */
  readonly isFinal?: boolean
  /** Whether it gives each login of a caller a credential of its own. */
  readonly isOfLogin?: boolean
  /** Whether its credentials sign requests. */
  readonly signs?: boolean
  /**
   * What of the caller's claims the credential depends on: tokens of one caller that differ in it are kept apart like
   * callers. Absent, or an empty text: nothing.
   */
  variant?(subject: Pick<Subject, 'claims'>): string
  /**
   * Digest of all of the caller's claims that the credential may depend on, whatever looks at them: what was obtained for a
   * token serves no other one that differs in it. Sessions outlive such a difference. Absent: on none.
   */
  digest?(subject: Pick<Subject, 'claims'>): string
  /** What is stored of the caller that a credential is obtained for; absent: what the call brings is enough. */
  readonly source?: CredentialSource | undefined
  /** `refused`: what the backend has not accepted. Rejects with a CredentialError. */
  obtain(subject: Subject, refused?: Credential): Promise<Credential>
  /** A credential of the gateway itself, for probes; absent where there is none of that kind. */
  readonly obtainOwn?: (() => Promise<Credential>) | undefined
  close(): Promise<void>
}

/**
 * Why there is no credential. `message` is for the log and holds nothing that a provider has said but registered error
 * codes; `text` is a clause for the caller, of fixed words.
 */
export class CredentialError extends Error {
  override readonly name = 'CredentialError'
  readonly text: string
  /** Whether the provider could not be asked, so that the next try may succeed. */
  readonly isPassing: boolean
  /** How the user gets one; absent: this is not for the user to mend. */
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
