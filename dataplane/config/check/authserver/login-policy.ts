import type { AuthServerConfig } from '../../auth-server.ts'
import { isIdentified, isOnDemand, primaryOf } from '../../authserver/provider.ts'
import type { Finding } from '../../load.ts'

/** Who a user is must be known after each login, and who logs in at another provider later must be that user again. */
export function loginPolicyFindings(server: AuthServerConfig, at: string): readonly Finding[] {
  const primary = primaryOf(server)
  const isKnownAgain = primary === undefined || isIdentified(primary)
  return server.upstreamProviders.flatMap((provider, index) => {
    const pointer = `${at}/upstreamProviders/${index}/loginPolicy`
    if (!isOnDemand(provider)) return []
    if (provider === primary) return [{ pointer, message: 'must be required: this provider says who users are' }]
    return isKnownAgain
      ? []
      : [{ pointer, message: 'must be required: nothing says who users are, so that none would be known again' }]
  })
}
