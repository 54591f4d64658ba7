import type { Logger } from 'pino'
import { SKEW_S } from './caller.ts'
import { Introspection } from './introspection.ts'
import { IntrospectionThrottle } from './introspection-throttle.ts'
import { type Issuer, IssuerKeys } from './issuer-keys.ts'
import type { LocalIssuer, Provider } from './provider.ts'
import { RefCounted } from './ref-counted.ts'
import { requiredScopes } from './scopes.ts'
import { TokenCache } from './token-cache.ts'

/** What is asked of an issuer's keys. */
type Keys = Pick<IssuerKeys, 'issuer' | 'findKey' | 'rediscoverIssuer'>

/** One provider of tokens, with its keys and its introspection client. */
export interface OpenProvider {
  readonly provider: Provider
  /** Scopes that its tokens must have. */
  readonly requiredScopes: readonly string[]
  readonly keys: Keys
  /** Introspects its opaque tokens, where a client is configured for it. */
  readonly introspection: Introspection | undefined
  /** A key of everything that it is made from. */
  readonly identity: string
  /** Ends its connections, once no verifier uses them any more. */
  close(): Promise<void>
}

/**
 * What outlives a reload of the configuration: the keys of issuers, the callers of verified tokens, and the introspection
 * budget of each address. A reload that changes nothing about an issuer does not affect its users, even while that issuer
 * is unreachable.
 */
export class Issuers {
  readonly verified = new TokenCache()
  readonly introspections = new IntrospectionThrottle()
  readonly #keys = new RefCounted<IssuerKeys>()
  readonly #introspections = new RefCounted<Introspection>()

  /** Opens a provider; what an open provider of the same issuer has loaded already is shared with it. */
  open(provider: Provider, log: Logger): OpenProvider {
    const { introspection: client, audience, audienceClaim, serviceAccount, local } = provider
    const scopes = requiredScopes(provider.scopes)
    if (local !== undefined) return openLocal(provider, local, scopes)
    const issuer = issuerOf(provider)
    const issuerKey = keyOf(issuer)
    const keys = this.#keys.acquire(issuerKey, () => {
      const made = new IssuerKeys(issuer, log)
      made.prefetch()
      return made
    })
    const introspectionKey = keyOf({ issuer, audience, audienceClaim, client })
    const issuerName = () => keys.issuer
    const introspection =
      client &&
      this.#introspections.acquire(
        introspectionKey,
        () => new Introspection({ issuer, issuerName, audience, audienceClaim, client, skewS: SKEW_S, log }),
      )
    const close = async () => {
      await Promise.all([
        this.#keys.release(issuerKey),
        introspection && this.#introspections.release(introspectionKey),
      ])
    }
    const identity = keyOf({ issuer, audience, audienceClaim, client, serviceAccount, scopes })
    return { provider, requiredScopes: scopes, keys, introspection, identity, close }
  }
}

/** A provider in this process: there is nothing to fetch, and nothing to close. */
function openLocal(provider: Provider, local: LocalIssuer, scopes: readonly string[]): OpenProvider {
  const nothing = async () => {
    // Its name and its keys are known.
  }
  return {
    provider,
    requiredScopes: scopes,
    keys: { issuer: local.issuer, findKey: local.findKey, rediscoverIssuer: nothing },
    introspection: undefined,
    identity: keyOf({ local: local.issuer, audience: provider.audience, scopes }),
    close: nothing,
  }
}

/** The fields of a provider that identify its issuer and how that is reached; the configuration has more. */
const issuerOf = (provider: Provider): Issuer =>
  ({
    issuer: provider.issuer,
    cluster: provider.cluster,
    jwksUrl: provider.jwksUrl,
    caBundleFile: provider.caBundleFile,
    bearerTokenFile: provider.bearerTokenFile,
    tokenFolder: provider.tokenFolder,
    allowPrivateIP: provider.allowPrivateIP,
    insecureAllowHTTP: provider.insecureAllowHTTP,
  }) satisfies { readonly [field in keyof Required<Issuer>]: Issuer[field] }

/** The same text for the same fields, whatever their order, at any depth. */
const keyOf = (value: unknown): string =>
  JSON.stringify(value, (_name, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  )
