import type { Logger } from 'pino'
import { SKEW_S } from './caller.ts'
import { Introspection } from './introspection.ts'
import { type Issuer, IssuerKeys } from './issuer-keys.ts'
import { KeptParts } from './kept-parts.ts'
import type { Provider } from './provider.ts'
import { TokenCache } from './token-cache.ts'
import { TokenQuestions } from './token-questions.ts'

/** What is known of one provider. */
export interface KnownProvider {
  readonly provider: Provider
  readonly keys: IssuerKeys
  /** Asks about its opaque tokens, where there is a client for it. */
  readonly asks: Introspection | undefined
  /** Says all that it is made of. */
  readonly identity: string
  /** Ends its connections, once no verifier uses them any more. */
  close(): Promise<void>
}

/**
 * What lives on while configurations come and go: the keys of issuers, callers of tokens that were verified, and how much
 * strangers have asked. A configuration that changes nothing about an issuer takes nothing from its users, even while
 * that issuer is away.
 */
export class Issuers {
  readonly verified = new TokenCache()
  readonly questions = new TokenQuestions()
  readonly #keys = new KeptParts<IssuerKeys>()
  readonly #introspections = new KeptParts<Introspection>()

  /** What is known of a provider already, or is found out from now on. */
  know(provider: Provider, log: Logger): KnownProvider {
    const { introspection: client, audience, serviceAccount } = provider
    const issuer = issuerOf(provider)
    const issuerKey = keyOf(issuer)
    const keys = this.#keys.take(issuerKey, () => {
      const made = new IssuerKeys(issuer, log)
      made.warm()
      return made
    })
    const askedBy = keyOf({ issuer, audience, client })
    const issuerName = () => keys.issuer
    const asks =
      client &&
      this.#introspections.take(
        askedBy,
        () => new Introspection({ issuer, issuerName, audience, client, skewS: SKEW_S, log }),
      )
    const close = async () => {
      await Promise.all([this.#keys.giveBack(issuerKey), asks && this.#introspections.giveBack(askedBy)])
    }
    return { provider, keys, asks, identity: keyOf({ issuer, audience, client, serviceAccount }), close }
  }
}

/** What of a provider says which issuer it is and how that is reached; its configuration holds more. */
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
