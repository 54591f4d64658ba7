import type { AuthServerConfig, SpiffeClientConfig, SpiffeTrustDomainConfig } from '../../auth-server.ts'
import { delegateClientsIn } from '../../authserver/inbound-grants.ts'
import type { Finding } from '../../load.ts'
import { duplicates } from '../lists.ts'
import { isLoopback, urlFindings } from '../url.ts'

export function spiffeFindings(config: AuthServerConfig, at: string): readonly Finding[] {
  const { spiffeTrustDomains: domains = [], inboundGrants } = config
  const clients = inboundGrants?.spiffeClientAuth ?? []
  const [domainsAt, clientsAt] = [`${at}/spiffeTrustDomains`, `${at}/inboundGrants/spiffeClientAuth`]
  const delegates = new Set(delegateClientsIn(config).map(({ clientId }) => clientId))
  return [
    ...duplicates(domains, ({ name }) => name, domainsAt, '/name'),
    ...domains.flatMap((domain, index) => domainFindings(domain, `${domainsAt}/${index}`, config.issuer)),
    ...duplicates(clients, ({ clientId }) => clientId, clientsAt, '/clientId'),
    ...duplicates(clients, ({ principalPattern }) => principalPattern, clientsAt, '/principalPattern'),
    ...clients.flatMap((client, index) => [
      ...clientFindings(client, domains, `${clientsAt}/${index}`),
      ...(delegates.has(client.clientId)
        ? [{ pointer: `${clientsAt}/${index}/clientId`, message: 'must not be the id of one of delegateClients' }]
        : []),
    ]),
  ]
}

const notSupported = (pointer: string, message: string): Finding => ({ pointer, message: `NotSupported: ${message}` })

/** Returns a finding for each X.509 method. */
const methodFindings = (methods: readonly string[], at: string): readonly Finding[] =>
  methods.flatMap((method, index) =>
    method === 'spiffe_x509'
      ? [notSupported(`${at}/methods/${index}`, 'SPIFFE over X.509 is not supported; use spiffe_jwt')]
      : [],
  )

function domainFindings({ methods, bundleSource }: SpiffeTrustDomainConfig, at: string, issuer: string) {
  const { type, endpoint, file } = bundleSource
  const source = `${at}/bundleSource`
  return [
    ...methodFindings(methods, at),
    ...(type === 'workload_api'
      ? [notSupported(`${source}/type`, 'the workload API is not supported; use bundle_endpoint or file')]
      : []),
    ...((type === 'bundle_endpoint') === (endpoint !== undefined)
      ? []
      : [{ pointer: `${source}/endpoint`, message: 'must be set when type is bundle_endpoint, and only then' }]),
    ...((type === 'file') === (file !== undefined)
      ? []
      : [{ pointer: `${source}/file`, message: 'must be set when type is file, and only then' }]),
    ...(endpoint === undefined ? [] : keyAddressFindings(endpoint.url, `${source}/endpoint/url`, issuer)),
    ...(endpoint?.profile === 'https_spiffe'
      ? [notSupported(`${source}/endpoint/profile`, 'SPIFFE over X.509 is not supported; use https_web')]
      : []),
  ]
}

function clientFindings(client: SpiffeClientConfig, domains: readonly SpiffeTrustDomainConfig[], at: string) {
  const { trustDomainRef, principalPattern, clientId, methods, resources = [], audiences = [] } = client
  const domain = domains.find(({ name }) => name === trustDomainRef)
  const isInside = domain !== undefined && principalPattern.startsWith(`spiffe://${domain.trustDomain}/`)
  return [
    ...methodFindings(methods, at),
    ...(domain === undefined
      ? [{ pointer: `${at}/trustDomainRef`, message: 'must be the name of one of spiffeTrustDomains' }]
      : []),
    ...(domain === undefined || isInside
      ? []
      : [{ pointer: `${at}/principalPattern`, message: `must be in the trust domain ${domain.trustDomain}` }]),
    ...methods.flatMap((method, index) =>
      domain === undefined || domain.methods.includes(method)
        ? []
        : [{ pointer: `${at}/methods/${index}`, message: 'must be one of the methods of its trust domain' }],
    ),
    ...(resources.length + audiences.length > 0 ? [] : [{ pointer: at, message: 'must have resources or audiences' }]),
    // The id of a client that publishes a metadata document.
    ...(clientId.includes('://')
      ? [
          {
            pointer: `${at}/clientId`,
            message: 'must not be a URL: those are the ids of clients with a metadata document',
          },
        ]
      : []),
  ]
}

/** Checks the address of a client's keys: https, or http on loopback while `issuer`, this server, is there, too. */
export function keyAddressFindings(text: string, pointer: string, issuer: string): readonly Finding[] {
  const [url, home] = [URL.parse(text), URL.parse(issuer)]
  const isLocal = url !== null && home !== null && isLoopback(url) && isLoopback(home)
  return [
    ...urlFindings(text, pointer),
    ...(url?.protocol === 'http:' && !isLocal
      ? [{ pointer, message: 'must be https; plain http is for loopback, while the issuer is there, too' }]
      : []),
  ]
}
