import type { KindDeclaration, ObjectOf } from '../../../crds/define.ts'
import { type MCPExternalAuthConfig, mcpExternalAuthConfig } from '../../../crds/index.ts'
import * as blocks from '../../../crds/settings/auth/external-auth.ts'
import { ROLE_CLAIM } from '../../../crds/settings/gateway/defaults.ts'
import { isObject } from '../../../crds/settings/json.ts'
import { childSchema, type SchemaNode } from '../../../crds/walk.ts'
import { authServerOwnFindings } from '../../../dataplane/config/check/auth-server.ts'
import {
  awsStsFindings,
  choosesByClaim,
  tokenClientFindings,
  xaaFindings,
} from '../../../dataplane/config/check/credential.ts'
import type { BackendConfig, GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { type Mounts, startMounts } from '../../render/pod/containers.ts'
import { checkSupported, noteInvalid, type Places, validatePart } from '../outcome/findings.ts'
import type { ProblemDetail } from '../outcome/plan.ts'
import { type CheckConfig, hasCaBundle, type KeyRef, mountSettings, type Resolver } from '../references/references.ts'
import { type AuthServerSpec, buildAuthServerSettings, reportGrants } from './auth-server.ts'
import { planConfig } from './config.ts'

export type CredentialSettings = Pick<BackendConfig, 'headerFiles' | 'credential'>

type Credential = NonNullable<BackendConfig['credential']>
type Spec = MCPExternalAuthConfig['spec']

/** Returns the upstream provider whose token is the credential or is exchanged for it. */
export const findProvider = (credential: Credential | undefined): string | undefined =>
  credential?.upstreamInject?.providerName ??
  credential?.tokenExchange?.subjectProviderName ??
  credential?.xaa?.subjectProviderName ??
  credential?.awsSts?.subjectProviderName

/** Returns the backends of a configuration, each with the upstream provider that its credential needs. */
export const listProviders = (config: Pick<GatewayConfig, 'backends'> | undefined) =>
  (config?.backends ?? []).map(({ name, credential }) => ({ name, provider: findProvider(credential) }))

/** Builds the settings of the credential that an MCPExternalAuthConfig describes, with its Secrets mounted as files. */
export function buildCredentialSettings(
  { type, headerInjection, bearerToken, tokenExchange, upstreamInject, xaa, awsSts }: Spec,
  resolver: Resolver,
  mounts: Mounts,
): CredentialSettings {
  if (type === 'headerInjection' && headerInjection) {
    const { name, key } = headerInjection.valueSecretRef
    return { headerFiles: [{ name: headerInjection.headerName, file: mounts.secretFile(name, key) }] }
  }
  if (type === 'bearerToken' && bearerToken) {
    const { name, key } = bearerToken.tokenSecretRef
    return { headerFiles: [{ name: 'Authorization', file: mounts.secretFile(name, key), prefix: 'Bearer ' }] }
  }
  if (type === 'upstreamInject' && upstreamInject) return { credential: { type, upstreamInject } }
  const place = { at: `/spec/${type}`, resolver, mounts }
  if (type === 'xaa' && xaa) return { credential: { type, xaa: mountSettings(blocks.crossAppAccess, xaa, place) } }
  if (type === 'tokenExchange' && tokenExchange)
    return { credential: { type, tokenExchange: mountSettings(blocks.tokenExchange, tokenExchange, place) } }
  if (type !== 'awsSts' || !awsSts) return {}
  const { roleClaim, ...settings } = mountSettings(blocks.awsSts, awsSts, place)
  // The claim has a default. The file omits it if no role depends on it.
  const chosenBy = roleClaim === '' || choosesByClaim(settings.roleMappings) ? { roleClaim } : {}
  return { credential: { type, awsSts: { ...settings, ...chosenBy } } }
}

export const checkExternalAuthConfig: CheckConfig<typeof mcpExternalAuthConfig> = (object, resolver) => {
  const { type } = object.spec
  checkSupported(mcpExternalAuthConfig, object, resolver.problems)
  if (type !== 'unauthenticated' && object.spec[type] === undefined)
    resolver.problems.add('Valid', 'ConfigInvalid', { pointer: `/spec/${type}`, joint: ' ', message: 'must be set' })
  checkSecrets(mcpExternalAuthConfig, object, resolver)
  const { tokenExchange, xaa, awsSts, embeddedAuthServer } = object.spec
  if (type === 'tokenExchange' && tokenExchange) checkTokenExchange(tokenExchange, resolver)
  if (type === 'embeddedAuthServer' && embeddedAuthServer) checkEmbedded(object, embeddedAuthServer, resolver)
  if (type === 'awsSts' && awsSts) noteInvalid(awsStsFindings(awsSts, '/spec/awsSts'), resolver.problems)
  if (type === 'xaa' && xaa) noteInvalid(xaaFindings(xaa, '/spec/xaa'), resolver.problems)
  if (resolver.problems.none && type !== 'embeddedAuthServer') {
    const settings = buildCredentialSettings(object.spec, resolver, startMounts(''))
    noteInvalid(
      validatePart({ backends: [{ name: 'backend', url: 'http://backend', ...settings }] }, PLACES),
      resolver.problems,
    )
  }
}

const PLACES: Places = {
  '/backends/0/credential': '/spec',
  '/backends/0/credential/tokenExchange/headerName': '/spec/tokenExchange/externalTokenHeaderName',
  '/backends/0/headerFiles/0/name': '/spec/headerInjection/headerName',
}

function checkTokenExchange(
  exchange: NonNullable<MCPExternalAuthConfig['spec']['tokenExchange']>,
  resolver: Resolver,
): void {
  const at = '/spec/tokenExchange'
  if (exchange.caBundleRef) hasCaBundle(exchange.caBundleRef, `${at}/caBundleRef`, resolver)
  noteInvalid(tokenClientFindings(exchange, at), resolver.problems)
}

/** Checks what can be wrong with an authorization server in any workload. */
function checkEmbedded(owner: MCPExternalAuthConfig, spec: AuthServerSpec, resolver: Resolver): void {
  const at = '/spec/embeddedAuthServer'
  const authServer = buildAuthServerSettings(spec, { owner, at }, resolver, startMounts(''))
  noteInvalid(authServerOwnFindings(authServer, at), resolver.problems)
  if (resolver.problems.none) noteInvalid(validatePart({ authServer }, { '/authServer': at }), resolver.problems)
}

const findUnused = ({ spec: { awsSts } }: MCPExternalAuthConfig): readonly ProblemDetail[] =>
  awsSts === undefined || awsSts.roleClaim === ROLE_CLAIM || choosesByClaim(awsSts.roleMappings)
    ? []
    : [
        {
          pointer: '/spec/awsSts/roleClaim',
          joint: ' ',
          message: 'has no effect: no entry of roleMappings has a claim',
        },
      ]

export const reconcileMcpExternalAuthConfig = planConfig(
  mcpExternalAuthConfig,
  checkExternalAuthConfig,
  findUnused,
  ({ spec: { embeddedAuthServer } }, conditions) =>
    reportGrants(embeddedAuthServer, '/spec/embeddedAuthServer', conditions),
)

/** Yields every Secret key that a value names. The schema shows where: an object whose `name` refers to a Secret. */
function* findSecretKeys(node: SchemaNode, value: unknown): Generator<KeyRef> {
  if (Array.isArray(value)) {
    for (const item of value) if (node.items) yield* findSecretKeys(node.items, item)
  } else if (isObject(value)) {
    const { name, key } = value
    if (node.properties?.['name']?.refersTo === 'Secret' && typeof name === 'string' && typeof key === 'string')
      yield { name, key }
    for (const [field, inner] of Object.entries(value)) {
      const child = childSchema(node, field)
      if (child) yield* findSecretKeys(child, inner)
    }
  }
}

/** Records every Secret and key that an object names anywhere and that is missing. */
function checkSecrets<K extends KindDeclaration>(kind: K, object: ObjectOf<K>, resolver: Resolver): void {
  for (const ref of findSecretKeys(kind.spec as SchemaNode, object.spec)) resolver.secretKey(ref)
}
