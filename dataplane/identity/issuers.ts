import type { Logger } from 'pino'
import { SKEW_S } from './caller.ts'
import { Introspection, type IntrospectionClient } from './introspection.ts'
import { IntrospectionThrottle } from './introspection-throttle.ts'
import { type Issuer, IssuerKeys } from './issuer-keys.ts'
import type { KeySet } from './key-set.ts'
import { requiredScopes } from './scopes.ts'
import { TokenCache } from './token-cache.ts'

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

interface Closable {
  close(): Promise<void>
}

/**
 * Resources that several owners share, by a key of everything that they are made from. A resource is closed when its last
 * owner releases it.
 */
export class RefCounted<P extends Closable> {
  readonly #resources = new Map<string, { readonly resource: P; owners: number }>()

  /** The resource of this key, made where there is none yet. Each `acquire` is paired with one `release`. */
  acquire(key: string, make: () => P): P {
    const entry = this.#resources.get(key) ?? { resource: make(), owners: 0 }
    entry.owners++
    this.#resources.set(key, entry)
    return entry.resource
  }

  async release(key: string): Promise<void> {
    const entry = this.#resources.get(key)
    if (entry === undefined || --entry.owners > 0) return
    this.#resources.delete(key)
    await entry.resource.close()
  }
}

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
