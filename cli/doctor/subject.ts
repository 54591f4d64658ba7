import type { KeyUse } from '../../dataplane/authserver/clients/stated-keys.ts'

export interface Endpoints {
  readonly authorization: string | undefined
  readonly token: string | undefined
  readonly userInfo: { readonly url: string; readonly method: 'GET' | 'POST' } | undefined
  /** True if the answer of the token endpoint identifies the user. */
  readonly identifiesByToken: boolean
}

export interface Subject {
  /** Its place: the object, and the provider's name if it has one. */
  readonly where: string
  /**
   * `tokens`: its tokens authenticate callers. `login`: users log in there. `assertions`: the embedded authorization
   * server takes its tokens. `keys`: that server fetches clients' keys there.
   */
  readonly use: 'tokens' | 'login' | 'assertions' | 'keys'
  /** The issuer; for a provider without one, the URL at which users log in; for keys, their URL. */
  readonly issuer: string
  /** Set for a provider that speaks OAuth 2 alone and has no metadata. */
  readonly endpoints?: Endpoints | undefined
  /** True if the API server of the cluster has the keys. */
  readonly isOfCluster?: boolean | undefined
  /** The use of the keys at their URL; absent: signatures. */
  readonly keyUse?: KeyUse | undefined
  /** The issuer of the authorization server that fetches the keys. */
  readonly server?: string | undefined
  readonly jwksUrl?: string | undefined
  readonly introspectionUrl?: string | undefined
  readonly introspects?: boolean | undefined
  readonly allowPrivateIP?: boolean | undefined
  readonly insecureAllowHTTP?: boolean | undefined
  /** The setting that allows a private address; absent: none does. */
  readonly allowedBy?: string
  readonly scopes: readonly string[]
  readonly audiences: readonly string[]
  readonly redirectUri?: string | undefined
}
