import type { authServer } from '../../../crds/shared/auth/auth-server.ts'
import type { Static } from '../../../crds/shared/schema.ts'
import type { AuthServerConfig } from '../../../dataplane/config/auth-server.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import type { Resolver } from '../references/resolver.ts'
import { secretFile } from '../references/secret-file.ts'

type AuthServerSpec = Static<ReturnType<typeof authServer>>

/** Clients by document, clients that exchange tokens, and issuers outside, as the data plane's configuration has them. */
export function delegationSettings(
  { cimd, delegateClients, trustedIssuers }: AuthServerSpec,
  resolver: Resolver,
  mounts: Mounts,
): Pick<AuthServerConfig, 'cimd' | 'delegateClients' | 'trustedIssuers'> {
  return {
    ...(cimd === undefined ? {} : { cimd: sortedKeys(cimd) }),
    ...(delegateClients === undefined
      ? {}
      : {
          delegateClients: delegateClients.flatMap(({ clientId, clientSecretRef, audiences, scopes }) => {
            const clientSecretFile = secretFile(clientSecretRef, resolver, mounts)
            return clientSecretFile === undefined ? [] : { clientId, clientSecretFile, audiences, scopes }
          }),
        }),
    ...(trustedIssuers === undefined ? {} : { trustedIssuers: trustedIssuers.map(trustedIssuer) }),
  }
}

type TrustedIssuer = NonNullable<AuthServerSpec['trustedIssuers']>[number]

/** What is off where nothing is said of it is left out. */
const trustedIssuer = ({ allowPrivateIPs, insecureAllowHTTP, allowMayAct, ...rest }: TrustedIssuer) =>
  sortedKeys({
    ...rest,
    ...(allowPrivateIPs ? { allowPrivateIPs } : {}),
    ...(insecureAllowHTTP ? { insecureAllowHTTP } : {}),
    ...(allowMayAct ? { allowMayAct } : {}),
  })
