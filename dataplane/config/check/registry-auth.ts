import type { Finding } from '../load.ts'
import type { AuthConfig, ProviderConfig } from '../registry.ts'
import { duplicates } from './duplicates.ts'
import { issuerFindings } from './issuer.ts'
import { isLoopback, urlFindings } from './url.ts'

const OF_OAUTH = ['oauth', 'authz', 'publicPaths'] as const

/** What is wrong with the `auth` block that its schema can't say. */
export function authFindings(auth: AuthConfig): readonly Finding[] {
  const { mode, oauth, publicPaths = [] } = auth
  return [
    ...(mode === 'oauth' ? [] : OF_OAUTH)
      .filter((field) => auth[field] !== undefined)
      .map((field) => ({
        pointer: `/auth/${field}`,
        message: 'is for mode oauth: everything is open in mode anonymous',
      })),
    ...(mode === 'oauth' && oauth === undefined
      ? [{ pointer: '/auth/oauth', message: 'is required in mode oauth' }]
      : []),
    ...(oauth?.resourceUrl === undefined ? [] : urlFindings(oauth.resourceUrl, '/auth/oauth/resourceUrl')),
    ...duplicates(oauth?.providers ?? [], ({ name }) => name, '/auth/oauth/providers', '/name'),
    ...(oauth?.providers ?? []).flatMap((provider, index) =>
      providerFindings(provider, `/auth/oauth/providers/${index}`),
    ),
    ...publicPaths.flatMap((path, index) =>
      isPlainPath(path)
        ? []
        : [
            {
              pointer: `/auth/publicPaths/${index}`,
              message: 'must be a plain path below the root, such as /registry/public',
            },
          ],
    ),
  ]
}

function providerFindings(provider: ProviderConfig, at: string): readonly Finding[] {
  const { issuerUrl, jwksUrl, introspectionUrl, clientId, clientSecretFile } = provider
  const { insecureAllowHTTP = false, allowPrivateIP = false } = provider
  const url = URL.parse(issuerUrl)
  const settings = { insecureAllowHTTP, allowPrivateIP, allowLoopback: url !== null && isLoopback(url) }
  return [
    ...issuerFindings({ issuer: issuerUrl, ...(jwksUrl !== undefined && { jwksUrl }), ...settings }, at, 'issuerUrl'),
    ...(introspectionUrl === undefined
      ? []
      : issuerFindings({ issuer: introspectionUrl, ...settings }, at, 'introspectionUrl')),
    ...((introspectionUrl ?? clientSecretFile) !== undefined && clientId === undefined
      ? [{ pointer: `${at}/clientId`, message: 'is required for introspection' }]
      : []),
    ...((introspectionUrl ?? clientId) !== undefined && clientSecretFile === undefined
      ? [{ pointer: `${at}/clientSecretFile`, message: 'is required for introspection' }]
      : []),
  ]
}

/** One without escapes, empty or dot segments: it is compared with what requests name. The root would open everything. */
function isPlainPath(path: string): boolean {
  const segments = path.slice(1).replace(/\/$/, '').split('/')
  return segments.every((segment) => /^[\w.~!$&'()*+,;=:@-]+$/.test(segment) && segment !== '.' && segment !== '..')
}
