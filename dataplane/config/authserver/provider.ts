import type { UpstreamProviderConfig } from '../auth-server.ts'

/** The provider whose identity stands for the user. */
export const primaryOf = <Provider extends { readonly name: string }>({
  upstreamProviders,
  primaryUpstreamProvider: primary,
}: {
  readonly upstreamProviders: readonly Provider[]
  readonly primaryUpstreamProvider?: string
}): Provider | undefined =>
  primary === undefined ? upstreamProviders[0] : upstreamProviders.find(({ name }) => name === primary)

/** Whether users log in there once a call needs it, and not before. */
export const isOnDemand = ({ loginPolicy }: { readonly loginPolicy?: 'required' | 'onDemand' }): boolean =>
  loginPolicy === 'onDemand'

/** Whether anything says who a user is; otherwise each login is a user of its own. */
export const isIdentified = ({
  oidcConfig: oidc,
  oauth2Config: oauth2,
}: {
  readonly oidcConfig?: object
  readonly oauth2Config?: { readonly userInfo?: object; readonly identityFromToken?: object }
}): boolean => (oidc ?? oauth2?.userInfo ?? oauth2?.identityFromToken) !== undefined

/** A provider, as far as it says where browsers come back to. */
export interface Returning {
  readonly name: string
  readonly oidcConfig?: { readonly redirectUri?: string }
  readonly oauth2Config?: { readonly redirectUri?: string }
}

/**
 * Where a provider sends browsers back to. A provider of OAuth 2 does not say whose code it is that comes back: where there
 * are several, each has a callback of its own, so that none is sent the code of another one (mix-up, RFC 9700 section 4.4).
 */
export function redirectUriOf(
  { issuer, upstreamProviders }: { readonly issuer: string; readonly upstreamProviders: readonly Returning[] },
  { name, oidcConfig: oidc, oauth2Config: oauth2 }: Returning,
): string {
  const own = oidc?.redirectUri ?? oauth2?.redirectUri
  if (own !== undefined) return own
  const isOneOfSeveral =
    oauth2 !== undefined && upstreamProviders.filter(({ oauth2Config }) => oauth2Config !== undefined).length > 1
  return isOneOfSeveral ? `${issuer}/oauth/callback/${name}` : `${issuer}/oauth/callback`
}

/** The end of a callback's path that names its provider; undefined where that ends with `/oauth/callback`. */
export const callbackNameOf = (redirectUri: string): string | undefined =>
  /\/oauth\/callback\/([^/]+)$/.exec(new URL(redirectUri).pathname)?.[1]

/** Where browsers are sent to log in, as far as the configuration says it: an issuer, or the very endpoint. */
export const loginUrlOf = ({ oidcConfig: oidc, oauth2Config: oauth2 }: UpstreamProviderConfig): URL =>
  new URL(oidc?.issuerUrl ?? oauth2?.authorizationEndpoint ?? '')
