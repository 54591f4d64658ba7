import type { IntrospectionClient } from './introspection.ts'
import type { Issuer } from './issuer-keys.ts'

/** An issuer whose tokens are accepted, for one audience. */
export interface Provider extends Issuer {
  readonly audience: string
  /** Scopes that clients are told to ask for; tokens must have those that are not of OpenID Connect. */
  readonly scopes?: readonly string[] | undefined
  /** The ServiceAccount that is let in, or all of a namespace; absent: every subject. */
  readonly serviceAccount?: { readonly namespace: string; readonly name?: string | undefined } | undefined
  /** Absent: its opaque tokens are not accepted. */
  readonly introspection?: IntrospectionClient | undefined
}
