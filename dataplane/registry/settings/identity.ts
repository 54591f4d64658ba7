import { resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import { type AuthConfig, DEFAULT_REALM, type ProviderConfig } from '../../config/registry.ts'
import { anonymous } from '../../identity/caller.ts'
import { unauthenticated } from '../../identity/challenge.ts'
import {
  type Authenticate,
  type CallerRequest,
  type ProtectedResourceMetadata,
  protectedResourceMetadata,
  resourceMetadataUrl,
} from '../../identity/index.ts'
import { Issuers, type Provider } from '../../identity/issuers.ts'
import { Retired } from '../../identity/retired.ts'
import { verifyTokens } from '../../identity/verify.ts'
import { PublicError } from '../../server/errors.ts'
import type { Observe } from '../../telemetry/observe.ts'
import { type Actor, createActors, findMode } from '../authz/access.ts'

interface IdentityOptions {
  readonly log: Logger
  readonly observe: Observe
}

/** Identifies callers by the configuration in force. */
export interface Identity {
  /**
   * Returns the actor of a request with this raw path. Throws a PublicError: `unauthenticated` with the challenge, or
   * `unavailable` if an issuer does not answer.
   */
  identify(authorization: string | undefined, path: string, request?: CallerRequest): Actor | Promise<Actor>
  /** Returns the function that derives actors by the rules in force. */
  actors(): ReturnType<typeof createActors>
  /** Builds the 401 for callers without a token. */
  challenge(): PublicError
  /** Returns the RFC 9728 metadata; undefined in anonymous mode and without a public URL. */
  metadata(): ProtectedResourceMetadata | undefined
  apply(auth: AuthConfig, directory: string): void
  close(): Promise<void>
}

type Verifier = Authenticate & { close(): Promise<void> }

interface InForce {
  readonly auth: AuthConfig
  readonly providers: readonly Provider[]
  readonly deriveActor: ReturnType<typeof createActors>
  readonly authenticate: Verifier
}

const admitAll: Verifier = Object.assign(() => anonymous, {
  close: async () => {
    // It has no connections to end.
  },
})

/** Creates the identification of callers. It refuses everybody before the first `apply`. */
export function createIdentity({ log, observe }: IdentityOptions): Identity {
  let current: InForce | undefined
  const issuers = new Issuers()
  const retired = new Retired((error) => log.error({ err: error }, 'closing connections to an issuer failed'))

  const inForce = () => {
    if (current === undefined) throw new PublicError('unavailable')
    return current
  }
  const metadataUrl = () => {
    const url = current?.auth.oauth?.resourceUrl
    return url === undefined ? undefined : resourceMetadataUrl(url)
  }
  const realm = () => current?.auth.oauth?.realm ?? DEFAULT_REALM

  return {
    identify(authorization, path, request) {
      const { auth, deriveActor, authenticate } = inForce()
      // A token is checked on public paths too: an invalid one is refused, and is not taken for no token.
      if (authorization === undefined && isPublicPath(path, auth.publicPaths ?? [])) return deriveActor(anonymous)
      const caller = authenticate(authorization, request)
      return caller instanceof Promise ? caller.then(deriveActor) : deriveActor(caller)
    },
    actors: () => inForce().deriveActor,
    challenge() {
      if (current?.auth.mode === 'anonymous')
        return new PublicError('unauthenticated', { headers: { 'www-authenticate': 'Bearer' } })
      return unauthenticated({ realm: realm(), scopes: undefined, resourceMetadataUrl: metadataUrl() })
    },
    metadata() {
      const { mode, oauth } = inForce().auth
      if (mode === 'anonymous' || oauth?.resourceUrl === undefined) return undefined
      const issuers = [...new Set(oauth.providers.map(({ issuerUrl }) => issuerUrl))]
      return protectedResourceMetadata({ resource: oauth.resourceUrl, issuers })
    },
    apply(auth, directory) {
      if (isDeepStrictEqual(current?.auth, auth)) return
      const before = current
      const providers =
        auth.mode === 'anonymous' ? [] : (auth.oauth?.providers ?? []).map((one) => buildProvider(one, directory))
      const options = {
        realm: auth.oauth?.realm ?? DEFAULT_REALM,
        resourceMetadataUrl: metadataUrl,
        log,
        observe,
        issuers,
      }
      const keeps =
        before?.auth.mode === auth.mode &&
        before.auth.oauth?.realm === auth.oauth?.realm &&
        isDeepStrictEqual(before.providers, providers)
      const authenticate = keeps
        ? before.authenticate
        : auth.mode === 'anonymous'
          ? admitAll
          : verifyTokens(providers, options)
      if (before !== undefined && !keeps) retired.add(before.authenticate)
      current = { auth, providers, deriveActor: createActors(auth), authenticate }
      warnOfMissingChecks(auth, log)
    },
    async close() {
      await Promise.all([retired.close(), current?.authenticate.close()])
    },
  }
}

/** Warns, once for each configuration, of checks that are switched off. */
function warnOfMissingChecks(auth: AuthConfig, log: Logger): void {
  switch (findMode(auth)) {
    case 'anonymous':
      log.warn('auth.mode is anonymous: nothing is checked, and everybody may do everything; for development only')
      return
    case 'auth-only':
      log.warn(
        'authorization is not configured (auth.authz is absent): per-entry claims filtering is disabled, and every authenticated caller has every role',
      )
  }
}

function buildProvider(provider: ProviderConfig, directory: string): Provider {
  const { issuerUrl, audience, jwksUrl, clientId, clientSecretFile, introspectionUrl, caCertPath } = provider
  return {
    issuer: issuerUrl,
    audience,
    jwksUrl,
    caBundleFile: caCertPath && resolve(directory, caCertPath),
    allowPrivateIP: provider.allowPrivateIP,
    insecureAllowHTTP: provider.insecureAllowHTTP,
    introspection:
      clientId === undefined || clientSecretFile === undefined
        ? undefined
        : { clientId, clientSecretFile: resolve(directory, clientSecretFile), url: introspectionUrl },
  }
}

/** A path is decoded at most so many times, since it may be encoded repeatedly. */
const MOST_ROUNDS = 4

/**
 * Tells whether a raw request path is a public path or lies below one, by whole segments. The public part must not be
 * encoded. An encoded slash after it is allowed, since names have one. Encoded dots are refused, and all that could
 * lead upwards.
 */
export function isPublicPath(path: string, publicPaths: readonly string[]): boolean {
  if (publicPaths.length === 0 || /%2e|%5c|\\|[?#]/i.test(path)) return false
  if (!publicPaths.some((open) => isAtOrBelow(path, open.replace(/\/$/, '')))) return false
  return !leadsUpwards(path)
}

function isAtOrBelow(path: string, open: string): boolean {
  return path === open || path.startsWith(`${open}/`)
}

function leadsUpwards(path: string): boolean {
  let text = path
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    if (text.split(/[/\\]/).some((segment) => segment === '.' || segment === '..')) return true
    if (!text.includes('%')) return false
    try {
      text = decodeURIComponent(text)
    } catch {
      // Somebody else may decode it in another way.
      return true
    }
  }
  return true
}
