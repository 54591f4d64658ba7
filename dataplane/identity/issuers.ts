import type { Logger } from 'pino'
import { Introspection, type IntrospectionClient, IntrospectionThrottle } from './introspection.ts'
import { type Issuer, IssuerKeys, type IssuerProblem, type KeySet } from './issuer-keys.ts'
import { requiredScopes } from './scopes.ts'
import { TokenCache } from './token-cache.ts'

export interface Provider extends Issuer {
  readonly audience: string
  /** The claim with the audience; absent: `aud`. */
  readonly audienceClaim?: string | undefined
  readonly scopes?: readonly string[] | undefined
  /** The accepted ServiceAccount, or all of a namespace; absent: every subject. */
  readonly serviceAccount?: { readonly namespace: string; readonly name?: string | undefined } | undefined
  /** The issuer itself, if it is in this process. */
  readonly local?: LocalIssuer | undefined
  readonly introspection?: IntrospectionClient | undefined
}

/** An issuer in this process. Its keys need no request, and its revocations are known at once. */
export interface LocalIssuer {
  readonly issuer: string
  /** Rejects with a PublicError `unavailable` while there are no keys. */
  readonly findKey: (...lookup: Parameters<KeySet>) => ReturnType<KeySet>
  /** Tells whether an unexpired token with these claims has been revoked. */
  isRevoked(claims: Readonly<Record<string, unknown>>): boolean
}

interface Closable {
  close(): Promise<void>
}

/** Shared resources by a key of everything that they are built from. The last release closes one. */
export class RefCounted<P extends Closable> {
  readonly #resources = new Map<string, { readonly resource: P; owners: number }>()

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

type Keys = Pick<IssuerKeys, 'issuer' | 'findKey' | 'rediscoverIssuer'> & {
  readonly problem?: IssuerProblem | undefined
}

export interface OpenProvider {
  readonly provider: Provider
  readonly requiredScopes: readonly string[]
  readonly keys: Keys
  readonly introspection: Introspection | undefined
  readonly identity: string
  close(): Promise<void>
}

/**
 * The state that survives a reload: keys, callers of verified tokens, and introspection budgets. A reload that does not
 * change an issuer does not affect its users.
 */
export class Issuers {
  readonly verified = new TokenCache()
  readonly introspections = new IntrospectionThrottle()
  readonly #keys = new RefCounted<IssuerKeys>()
  readonly #introspections = new RefCounted<Introspection>()

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
        () => new Introspection({ issuer, issuerName, audience, audienceClaim, client, log }),
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

/** Opens a provider that is in this process, so that nothing is fetched or closed. */
function openLocal(provider: Provider, local: LocalIssuer, scopes: readonly string[]): OpenProvider {
  // The name and the keys of a local issuer are known.
  const nothing = async () => undefined
  return {
    provider,
    requiredScopes: scopes,
    keys: { issuer: local.issuer, findKey: local.findKey, rediscoverIssuer: nothing },
    introspection: undefined,
    identity: keyOf({ local: local.issuer, audience: provider.audience, scopes }),
    close: nothing,
  }
}

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

/** Returns a text that does not depend on the order of fields, at any depth. */
const keyOf = (value: unknown): string =>
  JSON.stringify(value, (_name, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  )
