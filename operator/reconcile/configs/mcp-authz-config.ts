import { mcpAuthzConfig, type VirtualMCPServer } from '../../../crds/index.ts'
import { at, isObject } from '../../../crds/settings/json.ts'
import { authzFindings } from '../../../dataplane/config/check/authz.ts'
import type { AuthzConfig, GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { checkSupported } from '../outcome/findings.ts'
import { type Conditions, formatProblems, type ProblemDetail } from '../outcome/plan.ts'
import { type CheckConfig, findConfig, type KeyRef, type Resolver } from '../references/references.ts'
import { findJudgedProviderProblem } from './auth-server.ts'
import { planConfig } from './config.ts'

const checkAuthzConfig: CheckConfig<typeof mcpAuthzConfig> = (object, { problems }) => {
  checkSupported(mcpAuthzConfig, object, problems)
  if (object.spec.type !== 'cedarv1') return
  const settings = readCedarSettings(object.spec.config, '/spec/config')
  for (const detail of settings.problems) problems.add('Valid', 'ConfigInvalid', detail)
}

export const reconcileMcpAuthzConfig = planConfig(mcpAuthzConfig, checkAuthzConfig)

type AuthzFields = Pick<VirtualMCPServer['spec']['incomingAuth'], 'authzConfig' | 'authzConfigRef'>

/**
 * Builds the policies of a workload. Unavailable policies are a problem: running pods keep theirs, and a workload is
 * never served without them.
 */
export function buildAuthzSettings(
  fields: AuthzFields,
  { at, authServer }: { readonly at: string; readonly authServer?: GatewayConfig['authServer'] },
  resolver: Resolver,
): Pick<GatewayConfig, 'authz'> {
  const found = buildPolicies(fields, at, resolver)
  const provider = found.authz?.primaryUpstreamProvider
  const problem = provider === undefined ? undefined : findJudgedProviderProblem(provider, authServer)
  const pointer = `${at}/${fields.authzConfigRef === undefined ? 'authzConfig' : 'authzConfigRef'}`
  if (problem !== undefined) resolver.problems.add('Valid', 'UpstreamProviderUnknown', { pointer, message: problem })
  return found
}

function buildPolicies(fields: AuthzFields, at: string, resolver: Resolver): Pick<GatewayConfig, 'authz'> {
  const { authzConfig, authzConfigRef } = fields
  if (authzConfigRef !== undefined) return readSharedAuthz(authzConfigRef.name, resolver)
  if (authzConfig === undefined) return {}
  const { type, configMap, inline, groupClaimName, roleClaimName, groupEntityType } = authzConfig
  const claims = pickDefined({ groupClaimName, roleClaimName, groupEntityType })
  if (type === 'configMap' && configMap !== undefined) return readAuthzConfigMap(configMap, claims, resolver)
  const { policies, entitiesJson, primaryUpstreamProvider: provider } = inline ?? { policies: [], entitiesJson: '[]' }
  const source = { policies, entitiesJson, ...(provider === undefined ? {} : { primaryUpstreamProvider: provider }) }
  const { authz, problems } = readCedarSettings({ ...source, ...claims }, `${at}/authzConfig/inline`)
  for (const detail of problems) resolver.problems.add('Valid', 'ConfigInvalid', detail)
  return authz === undefined ? {} : { authz }
}

const pickDefined = (fields: object): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(fields).filter((field): field is [string, string] => field[1] !== undefined))

function readSharedAuthz(name: string, resolver: Resolver): Pick<GatewayConfig, 'authz'> {
  const config = findConfig(mcpAuthzConfig, checkAuthzConfig, name, resolver)
  const authz = config && readCedarSettings(config.spec.config, '/spec/config').authz
  return authz === undefined ? {} : { authz }
}

function readAuthzConfigMap(ref: KeyRef, claims: object, resolver: Resolver): Pick<GatewayConfig, 'authz'> {
  const text = resolver.configMapKey(ref)
  if (text === undefined) return {}
  const { authz, problems } = parseCedarFile(text)
  const about = { kind: 'ConfigMap', name: ref.name }
  const message = `ConfigMap ${JSON.stringify(ref.name)}, ${ref.key}: ${formatProblems(problems)}`
  if (problems.length > 0) resolver.problems.add('ReferencesResolved', 'ReferenceInvalid', { about, message })
  return authz === undefined ? {} : { authz: { ...authz, ...claims } }
}

/** Warns of policies on anonymous callers, who all get the same decision: authentication may have been intended. */
export function warnOfAuthz(fields: AuthzFields, isAnonymous: boolean, conditions: Conditions): void {
  if (!isAnonymous || (fields.authzConfig ?? fields.authzConfigRef) === undefined) return
  const message = 'callers are anonymous: policies see all of them as Client::"anonymous", without groups and claims'
  conditions.set('AuthzWarning', 'True', 'AnonymousCallers', message)
}

/** Settings of the engine by their accepted names: ours, and those in files of the widely used gateway. */
const names: Readonly<Record<string, keyof AuthzConfig>> = {
  policies: 'policies',
  entitiesJson: 'entitiesJson',
  entities_json: 'entitiesJson',
  groupClaimName: 'groupClaimName',
  group_claim_name: 'groupClaimName',
  roleClaimName: 'roleClaimName',
  role_claim_name: 'roleClaimName',
  primaryUpstreamProvider: 'primaryUpstreamProvider',
  primary_upstream_provider: 'primaryUpstreamProvider',
  groupEntityType: 'groupEntityType',
  group_entity_type: 'groupEntityType',
}

interface CedarSettings {
  /** Undefined if something is wrong. */
  readonly authz: AuthzConfig | undefined
  readonly problems: readonly ProblemDetail[]
}

/** Reads the engine's settings, a value of any shape, at the pointer `at`. */
function readCedarSettings(value: unknown, at: string): CedarSettings {
  if (!isObject(value)) return invalid([{ pointer: at, joint: ' ', message: 'must be an object' }])
  const { settings, problems } = named(value, at)
  problems.push(...checkShape(settings, at))
  if (problems.length > 0) return invalid(problems)
  const authz = buildAuthz(settings as unknown as AuthzConfig)
  const found = authzFindings(authz, at)
  if (found.length > 0) return invalid(found)
  const repeated = authz.entitiesJson && repeatedKey(authz.entitiesJson)
  if (repeated) return invalid([{ pointer: `${at}/entitiesJson`, joint: ' ', message: `says ${repeated} twice` }])
  return { authz, problems: [] }
}

function named(value: Readonly<Record<string, unknown>>, at: string) {
  const problems: ProblemDetail[] = []
  const settings: Record<string, unknown> = {}
  for (const [name, setting] of Object.entries(value)) {
    const pointer = `${at}/${name}`
    const known = Object.hasOwn(names, name) ? names[name] : undefined
    if (known === undefined) problems.push({ pointer, joint: ' ', message: 'is not a setting of cedarv1' })
    else if (Object.hasOwn(settings, known)) problems.push({ pointer, joint: ' ', message: `repeats ${known}` })
    else settings[known] = setting
  }
  return { settings, problems }
}

const invalid = (problems: readonly ProblemDetail[]): CedarSettings => ({ authz: undefined, problems })

function checkShape({ policies, ...texts }: Readonly<Record<string, unknown>>, at: string): ProblemDetail[] {
  const isList = Array.isArray(policies) && policies.length > 0
  const problems: ProblemDetail[] = []
  if (!isList || policies.some((policy) => typeof policy !== 'string' || policy === ''))
    problems.push({ pointer: `${at}/policies`, joint: ' ', message: 'must be a list of at least one policy' })
  for (const [name, text] of Object.entries(texts))
    if (typeof text !== 'string') problems.push({ pointer: `${at}/${name}`, joint: ' ', message: 'must be a string' })
  return problems
}

function buildAuthz(settings: AuthzConfig): AuthzConfig {
  const { policies, entitiesJson, primaryUpstreamProvider, groupClaimName, roleClaimName, groupEntityType } = settings
  return {
    policies: [...policies],
    ...(entitiesJson && entitiesJson !== '[]' ? { entitiesJson } : {}),
    ...(primaryUpstreamProvider ? { primaryUpstreamProvider } : {}),
    ...(groupClaimName ? { groupClaimName } : {}),
    ...(roleClaimName ? { roleClaimName } : {}),
    ...(groupEntityType ? { groupEntityType } : {}),
  }
}

/** Reads the settings in a file: plain, or in the form of the widely used gateway (`version`, `type`, `cedar`). */
function parseCedarFile(text: string): CedarSettings {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return invalid([{ message: `is not valid JSON: ${(error as Error).message}` }])
  }
  const repeated = repeatedKey(text)
  if (repeated !== undefined) return invalid([{ pointer: repeated, joint: ' ', message: 'is set twice' }])
  if (!isObject(value) || !('cedar' in value || 'type' in value || 'version' in value))
    return readCedarSettings(value, '')
  const { version, type, cedar, ...others } = value
  const [other] = Object.keys(others)
  if (other !== undefined)
    return invalid([{ pointer: `/${other}`, joint: ' ', message: 'is not a member of cedarv1: leave it out' }])
  if (type !== 'cedarv1') return invalid([{ pointer: '/type', joint: ' ', message: 'must be cedarv1' }])
  if (version !== undefined && version !== '1.0' && version !== 'v1' && version !== '1')
    return invalid([{ pointer: '/version', joint: ' ', message: 'must be "1.0"' }])
  return readCedarSettings(cedar, '/cedar')
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Returns the offset behind the string that begins at `start`. */
function findStringEnd(text: string, start: number): number {
  let end = start + 1
  while (end < text.length && text.charCodeAt(end) !== QUOTE) end += text.charCodeAt(end) === BACKSLASH ? 2 : 1
  return end + 1
}

const PUNCTUATION = new Set('{}[],:')

/** Yields strings, with their quotes, and the punctuation between values. */
function* readTokens(text: string): Generator<string> {
  for (let offset = 0; offset < text.length; offset++) {
    const char = text[offset] as string
    if (PUNCTUATION.has(char)) yield char
    if (char !== '"') continue
    const end = findStringEnd(text, offset)
    yield text.slice(offset, end)
    offset = end - 1
  }
}

interface Open {
  readonly pointer: string
  readonly keys: Set<string>
  step: string | number
}

const openIn = (outer: Open | undefined): Open => ({
  pointer: outer ? at(outer.pointer, outer.step) : '',
  keys: new Set(),
  step: 0,
})

/** Records a key that is being read, and tells whether the object already had it. */
function isRepeated(object: Open, key: string): boolean {
  object.step = key
  return object.keys.size === object.keys.add(key).size
}

/** Returns the JSON pointer of the first repeated key, in linear time. `JSON.parse` silently takes the last. */
export function repeatedKey(text: string): string | undefined {
  const open: Open[] = []
  let before = ''
  for (const token of readTokens(text)) {
    const inner = open.at(-1)
    if (token === '{' || token === '[') open.push(openIn(inner))
    else if (token === '}' || token === ']') open.pop()
    else if (inner && token === ':' && isRepeated(inner, JSON.parse(before))) return at(inner.pointer, inner.step)
    else if (token === ',' && typeof inner?.step === 'number') inner.step++
    before = token
  }
  return undefined
}
