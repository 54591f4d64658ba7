import { keyDefaults } from '../../../crds/settings/gateway/defaults.ts'
import type { AuthServerConfig, KeyProviderConfig, UpstreamProviderConfig } from '../auth-server.ts'

/** Returns the providers that identify users. A login visits one of them; if there are several, the user chooses. */
export const findPrimaries = <Provider extends { readonly name: string }>({
  upstreamProviders: providers,
  primaryUpstreamProvider: primary,
  primaryProviders,
}: {
  readonly upstreamProviders: readonly Provider[]
  readonly primaryUpstreamProvider?: string
  readonly primaryProviders?: readonly string[]
}): readonly Provider[] =>
  primaryProviders === undefined
    ? providers.filter(({ name }) => primary === undefined || name === primary).slice(0, 1)
    : primaryProviders.flatMap((name) => providers.filter((one) => one.name === name))

/** Tells whether a provider is one of several that users choose from at login. */
export const isChosen = (
  { primaryProviders = [] }: { readonly primaryProviders?: readonly string[] },
  name: string,
): boolean => primaryProviders.length > 1 && primaryProviders.includes(name)

/** Tells whether a provider stands for a key that each user enters, instead of a login. */
export const isKey = ({ type }: { readonly type?: string }): boolean => type === 'key'

export const loginProviders = <Provider extends { readonly type?: string }>(
  providers: readonly Provider[],
): readonly Provider[] => providers.filter((provider) => !isKey(provider))

/** Returns the providers of type `key`, with the defaults of their settings. */
export const keyProviders = ({ upstreamProviders }: AuthServerConfig): readonly KeyProviderConfig[] =>
  upstreamProviders.flatMap(({ name, keyConfig }) =>
    keyConfig === undefined
      ? []
      : [
          {
            name,
            keyConfig: { ...keyDefaults, ...keyConfig },
          },
        ],
  )

/** Tells whether users log in at the provider only when a call needs it. */
export const isOnDemand = ({ loginPolicy }: { readonly loginPolicy?: 'required' | 'onDemand' }): boolean =>
  loginPolicy === 'onDemand'

/** Tells whether what users link at the provider is theirs, and not of the login that has asked for it. */
export const isPerUser = ({ tokensPer }: { readonly tokensPer?: 'login' | 'user' }): boolean => tokensPer === 'user'

/** Tells whether a provider identifies the user. If it does not, each login is a new user. */
export const isIdentified = ({
  oidcConfig: oidc,
  oauth2Config: oauth2,
}: {
  readonly oidcConfig?: object
  readonly oauth2Config?: { readonly userInfo?: object; readonly identityFromToken?: object }
}): boolean => (oidc ?? oauth2?.userInfo ?? oauth2?.identityFromToken) !== undefined

/** The fields of a provider that determine its callback. */
export interface Returning {
  readonly name: string
  readonly oidcConfig?: { readonly redirectUri?: string }
  readonly oauth2Config?: { readonly redirectUri?: string }
}

/**
 * Returns the URL to which a provider sends browsers back. Several OAuth 2 providers have a callback each, so that none
 * gets the code of another (mix-up, RFC 9700 section 4.4).
 */
export function buildRedirectUri(
  { issuer, upstreamProviders }: { readonly issuer: string; readonly upstreamProviders: readonly Returning[] },
  { name, oidcConfig: oidc, oauth2Config: oauth2 }: Returning,
): string {
  const own = oidc?.redirectUri ?? oauth2?.redirectUri
  if (own !== undefined) return own
  const isOneOfSeveral =
    oauth2 !== undefined && upstreamProviders.filter(({ oauth2Config }) => oauth2Config !== undefined).length > 1
  return isOneOfSeveral ? `${issuer}/oauth/callback/${name}` : `${issuer}/oauth/callback`
}

/** Returns the URL of the first provider's callback without the provider's name. The pages for users are beside it. */
export const callbackUrlOf = (server: Parameters<typeof buildRedirectUri>[0]): string => {
  const [first] = server.upstreamProviders
  const callback = first === undefined ? `${server.issuer}/oauth/callback` : buildRedirectUri(server, first)
  return callback.replace(/\/oauth\/callback\/[^/]+$/, '/oauth/callback')
}

/** Returns the URL of the page on which users enter keys of their own; `provider`: the key. */
export const keyUrlOf = (server: Parameters<typeof buildRedirectUri>[0], provider?: string): string => {
  const page = callbackUrlOf(server).replace(/\/callback$/, '/key')
  return provider === undefined ? page : `${page}?${new URLSearchParams({ provider })}`
}

/** Returns the URL of the page on which users see what is linked to them. */
export const linkedUrlOf = ({ issuer }: { readonly issuer: string }): string => `${issuer}/oauth/sessions`

/** Returns the last part of a callback's path, which names its provider; undefined after `/oauth/callback`. */
export const readCallbackName = (redirectUri: string): string | undefined =>
  /\/oauth\/callback\/([^/]+)$/.exec(new URL(redirectUri).pathname)?.[1]

/** Returns the URL at which browsers log in, as far as the configuration tells: an issuer, or the endpoint itself. */
export const findLoginUrl = ({ oidcConfig: oidc, oauth2Config: oauth2 }: UpstreamProviderConfig): URL =>
  new URL(oidc?.issuerUrl ?? oauth2?.authorizationEndpoint ?? '')
