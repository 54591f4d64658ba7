import type { AuthServerConfig, MachineClientConfig } from '../../auth-server.ts'
import { delegateClientsIn } from '../../authserver/inbound-grants.ts'
import type { Finding } from '../../load.ts'
import { duplicates } from '../lists.ts'
import { keyAddressFindings } from './key-address.ts'
import { spiffeFindings } from './spiffe.ts'

export function machineClientFindings(config: AuthServerConfig, at: string): readonly Finding[] {
  const clients = config.inboundGrants?.clientCredentials?.clients ?? []
  const workloads = new Set(config.inboundGrants?.spiffeClientAuth?.map(({ clientId }) => clientId))
  const list = `${at}/inboundGrants/clientCredentials/clients`
  const delegates = new Set(delegateClientsIn(config).map(({ clientId }) => clientId))
  return [
    ...duplicates(clients, ({ clientId }) => clientId, list, '/clientId'),
    ...clients.flatMap((client, index) => [
      ...clientFindings(client, `${list}/${index}`, config.issuer),
      ...(delegates.has(client.clientId)
        ? [{ pointer: `${list}/${index}/clientId`, message: 'must not be the id of one of delegateClients' }]
        : []),
      ...(workloads.has(client.clientId)
        ? [{ pointer: `${list}/${index}/clientId`, message: 'must not be the id of one of spiffeClientAuth' }]
        : []),
    ]),
    ...spiffeFindings(config, at),
  ]
}

function clientFindings(client: MachineClientConfig, at: string, issuer: string): readonly Finding[] {
  const { clientId, clientSecretFile, jwksFile, jwksUrl } = client
  const count = [clientSecretFile, jwksFile, jwksUrl].filter((way) => way !== undefined).length
  return [
    ...(count === 1
      ? []
      : [{ pointer: at, message: 'must have exactly one of clientSecretFile, jwksFile and jwksUrl' }]),
    // The id of a client that publishes a metadata document.
    ...(clientId.includes('://')
      ? [
          {
            pointer: `${at}/clientId`,
            message: 'must not be a URL: those are the ids of clients with a metadata document',
          },
        ]
      : []),
    ...(jwksUrl === undefined ? [] : keyAddressFindings(jwksUrl, `${at}/jwksUrl`, issuer)),
  ]
}
