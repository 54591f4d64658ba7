import { buildRedirectUri, type Returning } from '../../dataplane/config/authserver/provider.ts'
import { type Manifest, readManifests } from '../../operator/cluster/files/index.ts'
import {
  distinct,
  type Fields,
  formatPlace,
  isFields,
  readFields,
  readList,
  readSpec,
  readText,
  readTexts,
} from './fields.ts'
import type { Endpoints, Subject } from './subject.ts'

/** Returns the references of workloads to one MCPOIDCConfig, with their audience, if any. */
function referencesTo(config: Manifest, manifests: readonly Manifest[]): readonly Fields[] {
  return manifests.flatMap((manifest) => {
    const spec = readSpec(manifest)
    return [spec, readFields(spec, 'incomingAuth')].flatMap((parent) => {
      const reference = readFields(parent, 'oidcConfigRef')
      if (readText(reference, 'name') !== config.id.name || manifest.id.namespace !== config.id.namespace) return []
      return [{ ...reference, audience: readText(reference, 'audience') ?? readText(parent, 'audience') }]
    })
  })
}

function tokenSubject(manifest: Manifest, manifests: readonly Manifest[]): readonly Subject[] {
  const inline = readFields(readSpec(manifest), 'inline')
  const issuer = readText(inline, 'issuer')
  if (issuer === undefined) return []
  const references = referencesTo(manifest, manifests)
  return [
    {
      where: formatPlace(manifest),
      use: 'tokens',
      issuer,
      jwksUrl: readText(inline, 'jwksUrl'),
      introspectionUrl: readText(inline, 'introspectionUrl'),
      introspects: inline['clientSecretRef'] !== undefined,
      allowPrivateIP: inline['jwksAllowPrivateIP'] === true,
      insecureAllowHTTP: inline['insecureAllowHTTP'] === true,
      allowedBy: 'inline.jwksAllowPrivateIP',
      scopes: distinct(references.flatMap((reference) => readTexts(reference, 'scopes'))),
      audiences: distinct(references.map((reference) => readText(reference, 'audience'))),
    },
  ]
}

function loginSubjects(manifest: Manifest, server: Fields): readonly Subject[] {
  const providers = server['upstreamProviders']
  const issuer = readText(server, 'issuer')
  if (!Array.isArray(providers) || issuer === undefined) return []
  // The manifest is unchecked here, so any field may be missing.
  const written = { issuer, upstreamProviders: providers.filter(isFields) as unknown as readonly Returning[] }
  return providers.filter(isFields).flatMap((provider) => {
    const isOAuth2 = isFields(provider['oauth2Config'])
    const block = isOAuth2 ? 'oauth2Config' : 'oidcConfig'
    const config = readFields(provider, block)
    const at = readText(config, isOAuth2 ? 'authorizationEndpoint' : 'issuerUrl')
    if (at === undefined) return []
    const scopes = readTexts(config, 'scopes')
    return [
      {
        where: `${formatPlace(manifest)}, provider ${readText(provider, 'name') ?? '(without a name)'}`,
        use: 'login' as const,
        issuer: at,
        ...(isOAuth2 && { endpoints: readEndpoints(config) }),
        allowPrivateIP: config['allowPrivateIPs'] === true,
        insecureAllowHTTP: config['insecureAllowHTTP'] === true,
        allowedBy: `${block}.allowPrivateIPs`,
        scopes: scopes.length === 0 && !isOAuth2 ? ['openid', 'offline_access'] : scopes,
        audiences: [],
        redirectUri: buildRedirectUri(written, provider as unknown as Returning),
      },
    ]
  })
}

function readEndpoints(config: Fields): Endpoints {
  const userInfo = readFields(config, 'userInfo')
  const url = readText(userInfo, 'endpointUrl')
  return {
    authorization: readText(config, 'authorizationEndpoint'),
    token: readText(config, 'tokenEndpoint'),
    userInfo: url === undefined ? undefined : { url, method: userInfo['httpMethod'] === 'POST' ? 'POST' : 'GET' },
    identifiesByToken: config['identityFromToken'] !== undefined,
  }
}

/** Returns the providers of an embedded authorization server, and everybody else whose tokens or keys it takes. */
const serverSubjects = (manifest: Manifest, server: Fields): readonly Subject[] => [
  ...loginSubjects(manifest, server),
  ...trustedSubjects(manifest, server),
]

/** Returns all uses of providers in these manifests, in the order of the files. */
export function subjectsIn(paths: readonly string[], group: string | undefined): readonly Subject[] {
  const { manifests } = readManifests(paths, group)
  return manifests.flatMap((manifest) => {
    switch (manifest.id.kind) {
      case 'MCPOIDCConfig':
        return tokenSubject(manifest, manifests)
      case 'VirtualMCPServer':
        return serverSubjects(manifest, readFields(readSpec(manifest), 'authServerConfig'))
      case 'MCPExternalAuthConfig':
        return serverSubjects(manifest, readFields(readSpec(manifest), 'embeddedAuthServer'))
      default:
        return []
    }
  })
}

/** Returns the other issuers whose tokens an authorization server takes, and the URLs of clients' keys. */
function trustedSubjects(manifest: Manifest, server: Fields): readonly Subject[] {
  const issuer = readText(server, 'issuer')
  if (issuer === undefined) return []
  const where = formatPlace(manifest)
  const grants = readFields(server, 'inboundGrants')
  const clients = readList(readFields(grants, 'clientCredentials'), 'clients')
  return [
    ...readList(server, 'trustedIssuers').flatMap((one) => issuerSubject(one, { where, issuer, grants })),
    ...clients.flatMap((client) =>
      keySubject(readText(client, 'jwksUrl'), `${where}, client ${readText(client, 'clientId')}`, issuer),
    ),
    ...readList(server, 'spiffeTrustDomains').flatMap((domain) => {
      const url = readText(readFields(readFields(domain, 'bundleSource'), 'endpoint'), 'url')
      const found = keySubject(url, `${where}, trust domain ${readText(domain, 'trustDomain')}`, issuer)
      return found.map((subject) => ({ ...subject, keyUse: 'jwt-svid' as const }))
    }),
  ]
}

interface Server {
  readonly where: string
  readonly issuer: string
  readonly grants: Fields
}

function issuerSubject(trusted: Fields, { where, issuer, grants }: Server): readonly Subject[] {
  const issuerUrl = readText(trusted, 'issuerUrl')
  if (issuerUrl === undefined) return []
  const name = readText(trusted, 'name')
  const policies = ['jwtBearer', 'tokenExchange'].flatMap((grant) =>
    readList(readFields(grants, grant), 'issuerPolicies').filter((policy) => readText(policy, 'issuerRef') === name),
  )
  const all = [trusted, readFields(trusted, 'jwtBearerGrant'), ...(name === undefined ? [] : policies)]
  return [
    {
      where: `${where}, trusted issuer${name === undefined ? '' : ` ${name}`}`,
      use: 'assertions',
      issuer: issuerUrl,
      isOfCluster: trusted['keySource'] === 'cluster',
      jwksUrl: readText(trusted, 'jwksUrl'),
      allowPrivateIP: trusted['allowPrivateIPs'] === true,
      insecureAllowHTTP: trusted['insecureAllowHTTP'] === true,
      allowedBy: 'trustedIssuers[].allowPrivateIPs',
      scopes: [],
      audiences: distinct([
        issuer,
        ...all.flatMap((policy) => [readText(policy, 'expectedAudience'), ...readTexts(policy, 'acceptedAudiences')]),
      ]),
    },
  ]
}

const keySubject = (url: string | undefined, where: string, server: string): readonly Subject[] =>
  url === undefined ? [] : [{ where, use: 'keys', issuer: url, server, scopes: [], audiences: [] }]
