import type { UpstreamProviderConfig } from './upstream.ts'

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

/** Where a provider sends browsers back to. */
export const redirectUriOf = (
  issuer: string,
  { oidcConfig: oidc, oauth2Config: oauth2 }: Pick<UpstreamProviderConfig, 'oidcConfig' | 'oauth2Config'>,
): string => oidc?.redirectUri ?? oauth2?.redirectUri ?? `${issuer}/oauth/callback`

/** Where browsers are sent to log in, as far as the configuration says it: an issuer, or the very endpoint. */
export const loginUrlOf = ({ oidcConfig: oidc, oauth2Config: oauth2 }: UpstreamProviderConfig): URL =>
  new URL(oidc?.issuerUrl ?? oauth2?.authorizationEndpoint ?? '')
