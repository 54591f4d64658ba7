import type { VirtualMCPServer } from '../../../crds/index.ts'

/** Names of the providers at which a gateway logs its users in; undefined where it logs nobody in. */
export const upstreamProvidersOf = ({ authServerConfig }: VirtualMCPServer['spec']): readonly string[] | undefined =>
  authServerConfig?.upstreamProviders.map(({ name }) => name)

/**
 * What is wrong with a credential that is a token of an upstream provider, where a gateway logs users in at these
 * providers. The one place that decides it.
 */
export function providerProblem(provider: string, providers: readonly string[] | undefined): string | undefined {
  if (providers === undefined)
    return `tokens of the provider ${JSON.stringify(provider)} need authServerConfig, which logs users in there`
  if (providers.includes(provider)) return undefined
  return `authServerConfig has no upstream provider ${JSON.stringify(provider)}`
}
