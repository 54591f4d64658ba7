import type { AuthServerConfig, SpiffeClientConfig, SpiffeTrustDomainConfig } from '../../auth-server.ts'
import { delegateClientsIn } from '../../authserver/inbound-grants.ts'
import type { Finding, Findings } from '../../load.ts'
import { duplicates } from '../lists.ts'
import { isLoopback, urlFindings } from '../url.ts'

export function* spiffeFindings(config: AuthServerConfig, at: string): Findings {
  const { spiffeTrustDomains: domains = [], inboundGrants } = config
  const clients = inboundGrants?.spiffeClientAuth ?? []
  const [domainsAt, clientsAt] = [`${at}/spiffeTrustDomains`, `${at}/inboundGrants/spiffeClientAuth`]
  const delegates = new Set(delegateClientsIn(config).map(({ clientId }) => clientId))
  yield* duplicates(domains, ({ name }) => name, domainsAt, '/name')
  for (const [index, domain] of domains.entries()) yield* domainFindings(domain, `${domainsAt}/${index}`, config.issuer)
  yield* duplicates(clients, ({ clientId }) => clientId, clientsAt, '/clientId')
  yield* duplicates(clients, ({ principalPattern }) => principalPattern, clientsAt, '/principalPattern')
  for (const [index, client] of clients.entries()) {
    yield* clientFindings(client, domains, `${clientsAt}/${index}`)
    if (delegates.has(client.clientId))
      yield { pointer: `${clientsAt}/${index}/clientId`, message: 'must not be the id of one of delegateClients' }
  }
}

const notSupported = (pointer: string, message: string): Finding => ({ pointer, message: `NotSupported: ${message}` })

/** Returns a finding for each X.509 method. */
function* methodFindings(methods: readonly string[], at: string): Findings {
  for (const [index, method] of methods.entries())
    if (method === 'spiffe_x509')
      yield notSupported(`${at}/methods/${index}`, 'SPIFFE over X.509 is not supported; use spiffe_jwt')
}

function* domainFindings({ methods, bundleSource }: SpiffeTrustDomainConfig, at: string, issuer: string): Findings {
  const { type, endpoint, file } = bundleSource
  const source = `${at}/bundleSource`
  yield* methodFindings(methods, at)
  if (type === 'workload_api')
    yield notSupported(`${source}/type`, 'the workload API is not supported; use bundle_endpoint or file')
  if ((type === 'bundle_endpoint') !== (endpoint !== undefined))
    yield { pointer: `${source}/endpoint`, message: 'must be set when type is bundle_endpoint, and only then' }
  if ((type === 'file') !== (file !== undefined))
    yield { pointer: `${source}/file`, message: 'must be set when type is file, and only then' }
  if (endpoint !== undefined) yield* keyAddressFindings(endpoint.url, `${source}/endpoint/url`, issuer)
  if (endpoint?.profile === 'https_spiffe')
    yield notSupported(`${source}/endpoint/profile`, 'SPIFFE over X.509 is not supported; use https_web')
}

function* clientFindings(
  client: SpiffeClientConfig,
  domains: readonly SpiffeTrustDomainConfig[],
  at: string,
): Findings {
  const { trustDomainRef, principalPattern, clientId, methods, resources = [], audiences = [] } = client
  const domain = domains.find(({ name }) => name === trustDomainRef)
  yield* methodFindings(methods, at)
  if (domain === undefined)
    yield { pointer: `${at}/trustDomainRef`, message: 'must be the name of one of spiffeTrustDomains' }
  else {
    if (!principalPattern.startsWith(`spiffe://${domain.trustDomain}/`))
      yield { pointer: `${at}/principalPattern`, message: `must be in the trust domain ${domain.trustDomain}` }
    for (const [index, method] of methods.entries())
      if (!domain.methods.includes(method))
        yield { pointer: `${at}/methods/${index}`, message: 'must be one of the methods of its trust domain' }
  }
  if (resources.length + audiences.length === 0) yield { pointer: at, message: 'must have resources or audiences' }
  yield* clientIdFindings(clientId, `${at}/clientId`)
}

/** Checks that an id is not that of a client that publishes a metadata document. */
export function* clientIdFindings(clientId: string, pointer: string): Findings {
  if (clientId.includes('://'))
    yield { pointer, message: 'must not be a URL: those are the ids of clients with a metadata document' }
}

/** Checks the address of a client's keys: https, or http on loopback while `issuer`, this server, is there, too. */
export function* keyAddressFindings(text: string, pointer: string, issuer: string): Findings {
  const [url, home] = [URL.parse(text), URL.parse(issuer)]
  const isLocal = url !== null && home !== null && isLoopback(url) && isLoopback(home)
  yield* urlFindings(text, pointer)
  if (url?.protocol === 'http:' && !isLocal)
    yield { pointer, message: 'must be https; plain http is for loopback, while the issuer is there, too' }
}
