import type { KeyUse } from '../../dataplane/authserver/clients/client-keys.ts'
import { buildRedirectUri, type Returning } from '../../dataplane/config/authserver/provider.ts'
import { type Manifest, readManifests } from '../../operator/cluster/files/index.ts'

export interface Endpoints {
  readonly authorization: string | undefined
  readonly token: string | undefined
  readonly userInfo: { readonly url: string; readonly method: 'GET' | 'POST' } | undefined
  /** True if the answer of the token endpoint identifies the user. */
  readonly identifiesByToken: boolean
}

export interface Subject {
  /** Its place: the object, and the provider's name if it has one. */
  readonly where: string
  /**
   * `tokens`: its tokens authenticate callers. `login`: users log in there. `assertions`: the embedded authorization
   * server takes its tokens. `keys`: that server fetches clients' keys there.
   */
  readonly use: 'tokens' | 'login' | 'assertions' | 'keys'
  /** The issuer; for a provider without one, the URL at which users log in; for keys, their URL. */
  readonly issuer: string
  /** Set for a provider that speaks OAuth 2 alone and has no metadata. */
  readonly endpoints?: Endpoints | undefined
  /** True if the API server of the cluster has the keys. */
  readonly isOfCluster?: boolean | undefined
  /** The use of the keys at their URL; absent: signatures. */
  readonly keyUse?: KeyUse | undefined
  /** The issuer of the authorization server that fetches the keys. */
  readonly server?: string | undefined
  readonly jwksUrl?: string | undefined
  readonly introspectionUrl?: string | undefined
  readonly introspects?: boolean | undefined
  readonly allowPrivateIP?: boolean | undefined
  readonly insecureAllowHTTP?: boolean | undefined
  /** The setting that allows a private address; absent: none does. */
  readonly allowedBy?: string
  readonly scopes: readonly string[]
  readonly audiences: readonly string[]
  readonly redirectUri?: string | undefined
}

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null

/** Returns the object in a field; an empty one if there is none. */
const readFields = (parent: unknown, name: string): Fields => {
  const value = isFields(parent) ? parent[name] : undefined
  return isFields(value) ? value : {}
}

/** Returns the objects in a list; none if it is no list. */
const readList = (parent: Fields, name: string): readonly Fields[] => {
  const value = parent[name]
  return Array.isArray(value) ? value.filter(isFields) : []
}

const readText = (parent: Fields, name: string): string | undefined => {
  const value = parent[name]
  return typeof value === 'string' ? value : undefined
}

const readTexts = (parent: Fields, name: string): readonly string[] => {
  const value = parent[name]
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}

const distinct = (texts: readonly (string | undefined)[]) =>
  [...new Set(texts.filter((text) => text !== undefined && text !== ''))] as string[]

const readSpec = ({ object }: Manifest): Fields => readFields(object, 'spec')
const formatPlace = ({ id: { kind, namespace, name } }: Manifest) => `${kind} ${namespace}/${name}`

/** Returns the references of workloads to one MCPOIDCConfig, with their audience, if any. */
function findReferences(config: Manifest, manifests: readonly Manifest[]): readonly Fields[] {
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
  const references = findReferences(manifest, manifests)
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

function collectLogins(manifest: Manifest, server: Fields): readonly Subject[] {
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
const collectServerSubjects = (manifest: Manifest, server: Fields): readonly Subject[] => [
  ...collectLogins(manifest, server),
  ...collectTrustedIssuers(manifest, server),
]

/** Returns all uses of providers in these manifests, in the order of the files. */
export function readSubjects(paths: readonly string[], group: string | undefined): readonly Subject[] {
  const { manifests } = readManifests(paths, group)
  return manifests.flatMap((manifest) => {
    switch (manifest.id.kind) {
      case 'MCPOIDCConfig':
        return tokenSubject(manifest, manifests)
      case 'VirtualMCPServer':
        return collectServerSubjects(manifest, readFields(readSpec(manifest), 'authServerConfig'))
      case 'MCPExternalAuthConfig':
        return collectServerSubjects(manifest, readFields(readSpec(manifest), 'embeddedAuthServer'))
      default:
        return []
    }
  })
}

/** Returns the other issuers whose tokens an authorization server takes, and the URLs of clients' keys. */
function collectTrustedIssuers(manifest: Manifest, server: Fields): readonly Subject[] {
  const issuer = readText(server, 'issuer')
  if (issuer === undefined) return []
  const where = formatPlace(manifest)
  const grants = readFields(server, 'inboundGrants')
  const clients = readList(readFields(grants, 'clientCredentials'), 'clients')
  return [
    ...readList(server, 'trustedIssuers').flatMap((one) => describeIssuer(one, { where, issuer, grants })),
    ...clients.flatMap((client) =>
      describeKeys(readText(client, 'jwksUrl'), `${where}, client ${readText(client, 'clientId')}`, issuer),
    ),
    ...readList(server, 'spiffeTrustDomains').flatMap((domain) => {
      const url = readText(readFields(readFields(domain, 'bundleSource'), 'endpoint'), 'url')
      return describeKeys(url, `${where}, trust domain ${readText(domain, 'trustDomain')}`, issuer, 'jwt-svid')
    }),
  ]
}

interface Server {
  readonly where: string
  readonly issuer: string
  readonly grants: Fields
}

function describeIssuer(trusted: Fields, { where, issuer, grants }: Server): readonly Subject[] {
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

const describeKeys = (url: string | undefined, where: string, server: string, keyUse?: KeyUse): readonly Subject[] =>
  url === undefined ? [] : [{ where, use: 'keys', issuer: url, server, keyUse, scopes: [], audiences: [] }]
