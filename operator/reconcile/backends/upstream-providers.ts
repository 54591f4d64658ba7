import type { VirtualMCPServer } from '../../../crds/index.ts'
import type { AuthServerSpec } from '../authserver/settings.ts'

/** Names of the providers whose tokens a gateway may send; undefined if it logs nobody in. */
export type UpstreamProviders = readonly string[] | 'disabled' | undefined

export const listUpstreamProviders = ({ authServerConfig }: VirtualMCPServer['spec']): UpstreamProviders =>
  sentProviders(authServerConfig)

/** Returns the same for an authorization server, wherever it runs. */
export const sentProviders = (server: AuthServerSpec | undefined): UpstreamProviders =>
  server?.disableUpstreamTokenInjection ? 'disabled' : server?.upstreamProviders.map(({ name }) => name)

/** Returns what is wrong with a credential that is a token of an upstream provider. Only this function decides it. */
export function providerProblem(provider: string, providers: UpstreamProviders): string | undefined {
  if (providers === undefined)
    return `tokens of the provider ${JSON.stringify(provider)} need an authorization server that logs users in there: set authServerConfig`
  if (providers === 'disabled')
    return `tokens of the provider ${JSON.stringify(provider)} are not sent: disableUpstreamTokenInjection is set`
  if (providers.includes(provider)) return undefined
  return `authServerConfig has no upstream provider ${JSON.stringify(provider)}`
}
