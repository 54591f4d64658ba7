import type { AuthServerConfig, MachineClientConfig } from '../../auth-server.ts'
import { delegateClientsIn } from '../../authserver/inbound-grants.ts'
import type { Finding } from '../../load.ts'
import { duplicates } from '../duplicates.ts'
import { isLoopback, urlFindings } from '../url.ts'

/** Checks the clients that act for themselves. */
export function machineClientFindings(config: AuthServerConfig, at: string): readonly Finding[] {
  const clients = config.inboundGrants?.clientCredentials?.clients ?? []
  const list = `${at}/inboundGrants/clientCredentials/clients`
  const delegates = new Set(delegateClientsIn(config).map(({ clientId }) => clientId))
  return [
    ...duplicates(clients, ({ clientId }) => clientId, list, '/clientId'),
    ...clients.flatMap((client, index) => [
      ...clientFindings(client, `${list}/${index}`, config.issuer),
      ...(delegates.has(client.clientId)
        ? [{ pointer: `${list}/${index}/clientId`, message: 'must not be the id of one of delegateClients' }]
        : []),
    ]),
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
      ? [{ pointer: `${at}/clientId`, message: 'must not be a URL, by which other clients are known' }]
      : []),
    ...(jwksUrl === undefined ? [] : keyAddressFindings(jwksUrl, `${at}/jwksUrl`, issuer)),
  ]
}

function keyAddressFindings(text: string, pointer: string, issuer: string): readonly Finding[] {
  const [url, home] = [URL.parse(text), URL.parse(issuer)]
  const isLocal = url !== null && home !== null && isLoopback(url) && isLoopback(home)
  return [
    ...urlFindings(text, pointer),
    ...(url?.protocol === 'http:' && !isLocal
      ? [{ pointer, message: 'must be https; plain http is for loopback, while the issuer is there, too' }]
      : []),
  ]
}
