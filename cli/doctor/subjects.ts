import { type Returning, redirectUriOf } from '../../dataplane/config/authserver/provider.ts'
import { type Manifest, readManifests } from '../../operator/cluster/files/index.ts'
import { distinct, type Fields, fieldsOf, isFields, specOf, textOf, textsOf, whereOf } from './fields.ts'
import type { Endpoints, Subject } from './subject.ts'
import { trustedSubjects } from './trusted-subjects.ts'

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
        return serverSubjects(manifest, fieldsOf(specOf(manifest), 'authServerConfig'))
      case 'MCPExternalAuthConfig':
        return serverSubjects(manifest, fieldsOf(specOf(manifest), 'embeddedAuthServer'))
      default:
        return []
    }
  })
}
