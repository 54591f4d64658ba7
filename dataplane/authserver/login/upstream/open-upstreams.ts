import type { AuthServerConfig } from '../../../config/auth-server.ts'
import { redirectUriOf } from '../../../config/authserver/provider.ts'
import type { UpstreamProviderConfig } from '../../../config/authserver/upstream.ts'
import { oauth2Upstream } from './oauth2-upstream.ts'
import { oidcUpstream } from './oidc-upstream.ts'
import type { RegistrationStore } from './registered-client.ts'
import { type ObserveProvider, type WatchedUpstream, watchedUpstream } from './watched-upstream.ts'

/** The providers of a configuration, in its order. Nothing is asked of them yet. */
export const openUpstreams = (
  config: AuthServerConfig,
  directory: string,
  { observe, ...registrations }: RegistrationStore & { readonly observe: ObserveProvider },
): readonly WatchedUpstream[] =>
  config.upstreamProviders.map((provider) => {
    const { name, oidcConfig: oidc, oauth2Config: oauth2 } = provider
    const redirectUri = redirectUriOf(config, provider)
    if (oidc !== undefined)
      return watchedUpstream(oidcUpstream({ name, config: oidc, directory, redirectUri }), observe)
    if (oauth2 === undefined) throw new Error(`the provider ${name} is described by nothing`)
    const own = originsOf(provider)
    const others = config.upstreamProviders.flatMap(originsOf).filter((origin) => !own.includes(origin))
    const options = { name, config: oauth2, directory, redirectUri, others, registrations }
    return watchedUpstream(oauth2Upstream(options), observe)
  })

const originsOf = ({ oidcConfig, oauth2Config }: UpstreamProviderConfig): readonly string[] =>
  [oidcConfig?.issuerUrl, oauth2Config?.authorizationEndpoint, oauth2Config?.tokenEndpoint]
    .filter((url) => url !== undefined)
    .map((url) => new URL(url).origin)
