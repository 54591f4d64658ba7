import type { TObject } from 'typebox'
import { type MCPExternalAuthConfig, mcpExternalAuthConfig } from '../../../crds/index.ts'
import { type CredentialDeclaration, credentialTypes } from '../../../crds/settings/auth/external-auth.ts'
import { nameInFile } from '../../../crds/settings/file-form.ts'
import { ROLE_CLAIM } from '../../../crds/settings/gateway/defaults.ts'
import { isObject } from '../../../crds/settings/json.ts'
import { childSchema, type SchemaNode } from '../../../crds/walk.ts'
import { authServerOwnFindings } from '../../../dataplane/config/check/auth-server.ts'
import { blockFindings, choosesByClaim, namedProviders } from '../../../dataplane/config/check/credential.ts'
import type { CredentialBlock } from '../../../dataplane/config/credential.ts'
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
  credential && namedProviders(credential)[0]?.name

/** Returns the backends of a configuration, each with the upstream provider that its credential needs. */
export const listProviders = (config: Pick<GatewayConfig, 'backends'> | undefined) =>
  (config?.backends ?? []).map(({ name, credential }) => ({ name, provider: findProvider(credential) }))

/** A spec's block by the declaration of its type. */
interface DeclaredBlock extends CredentialDeclaration {
  readonly block: TObject
  readonly value: Readonly<Record<string, unknown>>
}

/** Returns the block of a spec's type; undefined if there is none. */
function findBlock(spec: Spec): DeclaredBlock | undefined {
  const { type, [type as 'xaa']: value } = spec
  const declared: CredentialDeclaration = credentialTypes[type]
  return declared.block && value && { ...declared, block: declared.block, value }
}

/** Builds the settings of the credential that an MCPExternalAuthConfig describes, with its Secrets mounted as files. */
export function buildCredentialSettings(spec: Spec, resolver: Resolver, mounts: Mounts): CredentialSettings {
  const { type } = spec
  const { block, value, headers, file } = findBlock(spec) ?? {}
  if (block === undefined || value === undefined) return {}
  if (headers !== undefined)
    return {
      headerFiles: headers.map(({ value: secret, prefix, ...header }) => {
        const { name, key } = value[secret] as KeyRef
        return {
          name: 'name' in header ? header.name : String(value[header.nameIn]),
          file: mounts.secretFile(name, key),
          ...(prefix === undefined ? {} : { prefix }),
        }
      }),
    }
  if (file === undefined) return {}
  const settings = mountSettings(block, value, { at: `/spec/${type}`, resolver, mounts })
  return { credential: { type, [type]: type === 'awsSts' ? withUsedRoleClaim(settings) : settings } as Credential }
}

/** Omits the claim of roles, which has a default, if no role depends on it. */
function withUsedRoleClaim({ roleClaim, ...settings }: Partial<CredentialBlock<'awsSts'>>) {
  return roleClaim === '' || choosesByClaim(settings.roleMappings) ? { ...settings, roleClaim } : settings
}

export const checkExternalAuthConfig: CheckConfig<typeof mcpExternalAuthConfig> = (object, resolver) => {
  const { type, embeddedAuthServer } = object.spec
  checkSupported(mcpExternalAuthConfig, object, resolver.problems)
  if (type !== 'unauthenticated' && object.spec[type] === undefined)
    resolver.problems.refuse(`/spec/${type}`, 'must be set')
  for (const ref of findSecretKeys(mcpExternalAuthConfig.spec as SchemaNode, object.spec)) resolver.secretKey(ref)
  if (type === 'embeddedAuthServer') {
    if (embeddedAuthServer) checkEmbedded(object, embeddedAuthServer, resolver)
    return
  }
  const found = findBlock(object.spec)
  if (found?.file !== undefined) checkPersonal(type as Credential['type'], found, resolver)
  if (!resolver.problems.none) return
  const settings = buildCredentialSettings(object.spec, resolver, startMounts(''))
  const backend = { name: 'backend', url: 'http://backend', ...settings }
  noteInvalid(validatePart({ backends: [backend] }, listPlaces(type, found)), resolver.problems)
}

/** Checks what a file's schema does not say of a credential that each caller has of their own. */
function checkPersonal(type: Credential['type'], { block, value }: DeclaredBlock, resolver: Resolver): void {
  const at = `/spec/${type}`
  for (const [name, { mountedAs }] of Object.entries<SchemaNode>(block.properties)) {
    const ref = value[name]
    if (mountedAs === 'caBundle' && isObject(ref)) hasCaBundle(ref, `${at}/${name}`, resolver)
  }
  noteInvalid(blockFindings(type, value, at), resolver.problems)
}

/** Returns the fields of the spec by those of the backend's configuration that have another name. */
function listPlaces(type: Spec['type'], { block, headers = [] }: Partial<DeclaredBlock> = {}): Places {
  const at = `/spec/${type}`
  const renamed = Object.entries<SchemaNode>(block?.properties ?? {})
    .map(([name, child]) => [name, nameInFile(name, child)] as const)
    .filter(([name, inFile]) => name !== inFile)
    .map(([name, inFile]) => [`/backends/0/credential/${type}/${inFile}`, `${at}/${name}`] as const)
  const named = headers.flatMap((header, index) =>
    'nameIn' in header ? [[`/backends/0/headerFiles/${index}/name`, `${at}/${header.nameIn}`] as const] : [],
  )
  return Object.fromEntries([['/backends/0/credential', '/spec'], ...renamed, ...named])
}

/** Checks what can be wrong with an authorization server in any workload. */
function checkEmbedded(owner: MCPExternalAuthConfig, spec: AuthServerSpec, resolver: Resolver): void {
  const at = '/spec/embeddedAuthServer'
  const authServer = buildAuthServerSettings(spec, { owner, at }, resolver, startMounts(''))
  noteInvalid(authServerOwnFindings(authServer, at), resolver.problems)
  if (resolver.problems.none) noteInvalid(validatePart({ authServer }, { '/authServer': at }), resolver.problems)
}

function findUnused({ spec: { awsSts } }: MCPExternalAuthConfig): readonly ProblemDetail[] {
  if (awsSts === undefined || awsSts.roleClaim === ROLE_CLAIM || choosesByClaim(awsSts.roleMappings)) return []
  const message = 'has no effect: no entry of roleMappings has a claim'
  return [{ pointer: '/spec/awsSts/roleClaim', joint: ' ', message }]
}

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
