import type { AuthServerConfig, UpstreamProviderConfig } from '../../../config/auth-server.ts'
import { buildRedirectUri } from '../../../config/authserver/provider.ts'
import type { AuthServerStatus } from '../../../config/status.ts'
import type { Observation, Operation } from '../../../telemetry/observe.ts'
import { oauth2Upstream } from './oauth2-upstream.ts'
import { oidcUpstream } from './oidc-upstream.ts'
import { ProviderFault } from './provider-fault.ts'
import type { RegistrationStore } from './registered-client.ts'
import { type Upstream, UpstreamDenied } from './upstream.ts'

/** Opens the configured providers, in their order. It sends no requests yet. */
export const openUpstreams = (
  config: AuthServerConfig,
  directory: string,
  { observe, ...registrations }: RegistrationStore & { readonly observe: ObserveProvider },
): readonly WatchedUpstream[] =>
  config.upstreamProviders.map((provider) => {
    const { name, oidcConfig: oidc, oauth2Config: oauth2 } = provider
    const redirectUri = buildRedirectUri(config, provider)
    if (oidc !== undefined)
      return watchedUpstream(oidcUpstream({ name, config: oidc, directory, redirectUri }), observe)
    if (oauth2 === undefined) throw new Error(`the provider ${name} has neither metadata nor endpoints`)
    const own = listOrigins(provider)
    const others = config.upstreamProviders.flatMap(listOrigins).filter((origin) => !own.includes(origin))
    const options = { name, config: oauth2, directory, redirectUri, others, registrations }
    return watchedUpstream(oauth2Upstream(options), observe)
  })

const listOrigins = ({ oidcConfig, oauth2Config }: UpstreamProviderConfig): readonly string[] =>
  [oidcConfig?.issuerUrl, oauth2Config?.authorizationEndpoint, oauth2Config?.tokenEndpoint]
    .filter((url) => url !== undefined)
    .map((url) => new URL(url).origin)

/** The state of a provider, from the logins and refreshes at this replica. */
type UpstreamState = AuthServerStatus['providers'][number]

/** An error and its time. An error that the provider did not cause has only a code. */
type UpstreamFailure = NonNullable<UpstreamState['lastError']>

/** A provider whose state is known. */
export interface WatchedUpstream extends Upstream {
  readonly state: UpstreamState
}

/** Begins the measurement of an operation at a provider. */
export type ObserveProvider = (operation: Operation) => Observation

/** Measures a provider's operations and tracks its state. A refusal by the user or the provider counts as an answer. */
function watchedUpstream(upstream: Upstream, observe: ObserveProvider): WatchedUpstream {
  let lastSuccess: UpstreamState['lastSuccess'] = null
  let lastError: UpstreamState['lastError'] = null
  let lastRefusal: UpstreamFailure | undefined

  const attributes = { 'portico.provider': upstream.name }

  async function watched<T>(operation: 'prepare' | 'exchange' | 'refresh', ask: () => Promise<T>): Promise<T> {
    const observed = observe({ kind: 'provider', name: operation, attributes })
    try {
      const answer = await ask()
      observed.end({ result: 'ok' })
      // `prepare` may return the browser's URL without a request to the provider, so it proves nothing.
      if (operation !== 'prepare') noteSuccess()
      return answer
    } catch (error) {
      const failure = describeFailure(error)
      const isDenied = error instanceof UpstreamDenied
      observed.end({ result: isDenied ? 'denied' : 'error', code: failure.code })
      if (!isDenied) lastError = failure
      else noteRefusal(operation === 'exchange' ? failure : lastRefusal)
      throw error
    }
  }

  function noteRefusal(refusal: UpstreamFailure | undefined): void {
    noteSuccess()
    lastRefusal = refusal
  }

  function noteSuccess(): void {
    lastSuccess = new Date().toISOString()
    lastError = null
  }

  return {
    name: upstream.name,
    get state() {
      return { name: upstream.name, lastSuccess, lastError, ...(lastRefusal && { lastRefusal }) }
    },
    authorizationUrl: (checks, maxAge) => watched('prepare', () => upstream.authorizationUrl(checks, maxAge)),
    exchange: (callback, checks) => watched('exchange', () => upstream.exchange(callback, checks)),
    refresh: (token) => watched('refresh', () => upstream.refresh(token)),
    close: () => upstream.close(),
  }
}

function describeFailure(error: unknown): UpstreamFailure {
  const isDenied = error instanceof UpstreamDenied
  const found = { code: isDenied ? 'access_denied' : findCode(error), at: new Date().toISOString() }
  const fault = isDenied ? error.cause : error
  if (!(fault instanceof ProviderFault)) return found
  const { step, message, reported, next } = fault
  return { ...found, step, message, ...reported, next }
}

const CODE = /^[A-Za-z]\w{0,63}$/

/** Returns the code of the innermost error that has one, or the name of the error. */
function findCode(error: unknown): string {
  let found = 'Error'
  for (let depth = 0, at = error; depth < 5 && at instanceof Error; depth++, at = at.cause) {
    const { code, name } = at as Error & { code?: unknown }
    if (typeof code === 'string' && CODE.test(code)) found = code
    else if (depth === 0 && CODE.test(name)) found = name
  }
  return found
}
