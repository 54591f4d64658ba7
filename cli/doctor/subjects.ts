import { type Returning, redirectUriOf } from '../../dataplane/config/authserver/provider.ts'
import { type Manifest, readManifests } from '../../operator/cluster/files/index.ts'

/** The endpoints of a provider without metadata. */
export interface Endpoints {
  readonly authorization: string | undefined
  readonly token: string | undefined
  readonly userInfo: { readonly url: string; readonly method: 'GET' | 'POST' } | undefined
  /** True if the answer of the token endpoint identifies the user. */
  readonly identifiesByToken: boolean
}

/** A provider as one part of the manifests uses it. */
export interface Subject {
  /** Its place: the object, and the provider's name if it has one. */
  readonly where: string
  /** `tokens`: its tokens authenticate callers. `login`: the embedded authorization server logs users in there. */
  readonly use: 'tokens' | 'login'
  /** The issuer; for a provider without one, the URL at which users log in. */
  readonly issuer: string
  /** Set for a provider that speaks OAuth 2 alone and has no metadata. */
  readonly endpoints?: Endpoints | undefined
  readonly jwksUrl?: string | undefined
  readonly introspectionUrl?: string | undefined
  /** True if opaque tokens are introspected. */
  readonly introspects?: boolean | undefined
  readonly allowPrivateIP?: boolean | undefined
  readonly insecureAllowHTTP?: boolean | undefined
  /** The setting that allows a private address. */
  readonly allowedBy: string
  readonly scopes: readonly string[]
  readonly audiences: readonly string[]
  readonly redirectUri?: string | undefined
}

/** A part of a manifest. Its schema has not checked it, so that each field may be anything. */
type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null
const fieldsOf = (parent: unknown, name: string): Fields => {
  const value = isFields(parent) ? parent[name] : undefined
  return isFields(value) ? value : {}
}
const textOf = (parent: Fields, name: string): string | undefined => {
  const value = parent[name]
  return typeof value === 'string' ? value : undefined
}
const textsOf = (parent: Fields, name: string): readonly string[] => {
  const value = parent[name]
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}
const distinct = (texts: readonly (string | undefined)[]) =>
  [...new Set(texts.filter((text) => text !== undefined && text !== ''))] as string[]

const specOf = ({ object }: Manifest): Fields => fieldsOf(object, 'spec')
const whereOf = ({ id: { kind, namespace, name } }: Manifest) => `${kind} ${namespace}/${name}`

/** Returns the references of workloads to one MCPOIDCConfig, with their audience, if any. */
function referencesTo(config: Manifest, manifests: readonly Manifest[]): readonly Fields[] {
  return manifests.flatMap((manifest) => {
    const spec = specOf(manifest)
    return [spec, fieldsOf(spec, 'incomingAuth')].flatMap((parent) => {
      const reference = fieldsOf(parent, 'oidcConfigRef')
      if (textOf(reference, 'name') !== config.id.name || manifest.id.namespace !== config.id.namespace) return []
      return [{ ...reference, audience: textOf(reference, 'audience') ?? textOf(parent, 'audience') }]
    })
  })
}

function tokenSubject(manifest: Manifest, manifests: readonly Manifest[]): readonly Subject[] {
  const inline = fieldsOf(specOf(manifest), 'inline')
  const issuer = textOf(inline, 'issuer')
  if (issuer === undefined) return []
  const references = referencesTo(manifest, manifests)
  return [
    {
      where: whereOf(manifest),
      use: 'tokens',
      issuer,
      jwksUrl: textOf(inline, 'jwksUrl'),
      introspectionUrl: textOf(inline, 'introspectionUrl'),
      introspects: inline['clientSecretRef'] !== undefined,
      allowPrivateIP: inline['jwksAllowPrivateIP'] === true,
      insecureAllowHTTP: inline['insecureAllowHTTP'] === true,
      allowedBy: 'inline.jwksAllowPrivateIP',
      scopes: distinct(references.flatMap((reference) => textsOf(reference, 'scopes'))),
      audiences: distinct(references.map((reference) => textOf(reference, 'audience'))),
    },
  ]
}

/** Returns the providers of an embedded authorization server. */
function loginSubjects(manifest: Manifest, server: Fields): readonly Subject[] {
  const providers = server['upstreamProviders']
  const issuer = textOf(server, 'issuer')
  if (!Array.isArray(providers) || issuer === undefined) return []
  // The manifest is unchecked here, so any field may be missing.
  const written = { issuer, upstreamProviders: providers.filter(isFields) as unknown as readonly Returning[] }
  return providers.filter(isFields).flatMap((provider) => {
    const isOAuth2 = isFields(provider['oauth2Config'])
    const block = isOAuth2 ? 'oauth2Config' : 'oidcConfig'
    const config = fieldsOf(provider, block)
    const at = textOf(config, isOAuth2 ? 'authorizationEndpoint' : 'issuerUrl')
    if (at === undefined) return []
    const scopes = textsOf(config, 'scopes')
    return [
      {
        where: `${whereOf(manifest)}, provider ${textOf(provider, 'name') ?? '(without a name)'}`,
        use: 'login' as const,
        issuer: at,
        ...(isOAuth2 && { endpoints: endpointsOf(config) }),
        allowPrivateIP: config['allowPrivateIPs'] === true,
        insecureAllowHTTP: config['insecureAllowHTTP'] === true,
        allowedBy: `${block}.allowPrivateIPs`,
        scopes: scopes.length === 0 && !isOAuth2 ? ['openid', 'offline_access'] : scopes,
        audiences: [],
        redirectUri: redirectUriOf(written, provider as unknown as Returning),
      },
    ]
  })
}

function endpointsOf(config: Fields): Endpoints {
  const userInfo = fieldsOf(config, 'userInfo')
  const url = textOf(userInfo, 'endpointUrl')
  return {
    authorization: textOf(config, 'authorizationEndpoint'),
    token: textOf(config, 'tokenEndpoint'),
    userInfo: url === undefined ? undefined : { url, method: userInfo['httpMethod'] === 'POST' ? 'POST' : 'GET' },
    identifiesByToken: config['identityFromToken'] !== undefined,
  }
}

/** Returns all uses of providers in these manifests, in the order of the files. */
export function subjectsIn(paths: readonly string[], group: string | undefined): readonly Subject[] {
  const { manifests } = readManifests(paths, group)
  return manifests.flatMap((manifest) => {
    switch (manifest.id.kind) {
      case 'MCPOIDCConfig':
        return tokenSubject(manifest, manifests)
      case 'VirtualMCPServer':
        return loginSubjects(manifest, fieldsOf(specOf(manifest), 'authServerConfig'))
      case 'MCPExternalAuthConfig':
        return loginSubjects(manifest, fieldsOf(specOf(manifest), 'embeddedAuthServer'))
      default:
        return []
    }
  })
}
