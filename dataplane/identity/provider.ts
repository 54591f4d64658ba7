import type { IntrospectionClient } from './introspection.ts'
import type { Issuer } from './issuer-keys.ts'
import type { KeySet } from './key-set.ts'

/** An issuer whose tokens are accepted, for one audience. */
export interface Provider extends Issuer {
  readonly audience: string
  /** The claim that the audience is in; absent: `aud`. */
  readonly audienceClaim?: string | undefined
  /** Scopes that clients are told to ask for; tokens must have those that are not of OpenID Connect. */
  readonly scopes?: readonly string[] | undefined
  /** The ServiceAccount that is let in, or all of a namespace; absent: every subject. */
  readonly serviceAccount?: { readonly namespace: string; readonly name?: string | undefined } | undefined
  /** The issuer itself, where it is in this process; absent: it is elsewhere. */
  readonly local?: LocalIssuer | undefined
  /** Absent: its opaque tokens are not accepted. */
  readonly introspection?: IntrospectionClient | undefined
}

/** An issuer in this process: its keys need no request, and what it has revoked is known at once. */
export interface LocalIssuer {
  readonly issuer: string
  /** Rejects with a PublicError `unavailable` while there are no keys. */
  readonly findKey: (...lookup: Parameters<KeySet>) => ReturnType<KeySet>
  /** Whether a token with these claims has been revoked, though it has not expired. */
  isRevoked(claims: Readonly<Record<string, unknown>>): boolean
}
