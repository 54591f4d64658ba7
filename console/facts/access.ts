import { isObject } from '../../crds/settings/json.ts'
import type { KubernetesObject, ObjectIndex } from '../../operator/model/index.ts'
import { identify, type ObjectId } from '../places/object-id.ts'
import type { Report } from '../places/place.ts'
import type { AuditedCall } from './calls.ts'
import { at } from './connect.ts'
import { membersByName } from './subjects.ts'
import type { Headed } from './workload.ts'

/** A check that a call passes through. */
export interface Step {
  readonly step: 'token' | 'scope' | 'tool filter' | 'catalog' | 'policy' | 'rate'
  /** Null if the check does not apply, or its result is unknown. */
  readonly passed: boolean | null
  readonly says: string
}

export interface AccessFacts extends Headed {
  /** Names of the tools that the viewer sees, for the selection. */
  readonly tools: readonly string[]
  readonly question: { readonly claims: string; readonly tool: string; readonly arguments: string }
  /** Null until a question was asked. */
  readonly verdict: 'allowed' | 'denied' | null
  readonly steps: readonly Step[]
  /** The answer of `POST /explain`; null if nothing was asked, or there are no policies. */
  readonly explanation: unknown
  readonly error: string | null
  /** The missing right, as a `kubectl` command line. */
  readonly right: string | null
  /** The denied call that the form was filled from. */
  readonly filledFrom: AuditedCall | null
  readonly denied: readonly AuditedCall[]
  readonly deniedMissing: string | null
}

interface CallContext {
  readonly objects: ObjectIndex
  readonly object: KubernetesObject
  readonly question: AccessFacts['question']
  readonly caller: Readonly<Record<string, unknown>> | undefined
  readonly reports: readonly Report[]
  /** The answer; null if there are no policies, scopes or catalog gate. */
  readonly explanation: unknown
  /** The tools that the viewer sees; undefined if they can't be listed. */
  readonly listed: readonly string[] | undefined
}

/**
 * Explains a call check by check: the token, its scopes, the tool filter, the catalog, the policies, the rate limits.
 */
export function accessSteps(context: CallContext): readonly Step[] {
  return [
    tokenStep(context),
    ...scopeStep(context),
    filterStep(context),
    ...catalogStep(context),
    policyStep(context),
    rateStep(context),
  ]
}

/** Returns the type of authentication that a workload requires of its callers. */
export function findAuthType({ spec }: KubernetesObject): string {
  const type = at(spec, 'incomingAuth', 'type')
  if (typeof type === 'string') return type
  return at(spec, 'oidcConfigRef') === undefined ? 'anonymous' : 'oidc'
}

function tokenStep({ object, caller }: CallContext): Step {
  if (findAuthType(object) === 'anonymous') return { step: 'token', passed: null, says: 'callers are anonymous' }
  return caller === undefined
    ? { step: 'token', passed: false, says: 'callers need a token, and an anonymous one has none' }
    : { step: 'token', passed: true, says: 'a token with these claims, from an issuer that is trusted' }
}

/** Returns the step for the scopes that the tool needs, if it needs any. */
function scopeStep({ explanation }: CallContext): readonly Step[] {
  const scopes = at(explanation, 'scopes')
  if (!isObject(scopes)) return []
  const [needed, missing] = [listIn(scopes['needed']), listIn(scopes['missing'])]
  const says = `it needs ${needed.join(', ')}${missing.length > 0 ? `; the token lacks ${missing.join(', ')}` : ''}`
  return [{ step: 'scope', passed: missing.length === 0, says }]
}

const listIn = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === 'string').slice(0, 50) : []

function catalogStep({ explanation }: CallContext): readonly Step[] {
  const catalog = at(explanation, 'catalog')
  return isObject(catalog)
    ? [{ step: 'catalog', passed: catalog['allowed'] === true, says: String(catalog['reason']).slice(0, 500) }]
    : []
}

/** Returns a tool's name at its server; undefined if the name does not begin with the server's prefix. */
const ownName = (tool: string, server: string): string | undefined =>
  tool.startsWith(`${server}_`) ? tool.slice(server.length + 1) : undefined

/** Tells whether the configuration of the gateway, or of the tool's server, filters a tool out. */
function isFilteredOut({ object, objects, question: { tool } }: CallContext): boolean {
  const tools = at(object, 'spec', 'config', 'aggregation', 'tools')
  const isLeftOut = (Array.isArray(tools) ? tools.filter(isObject) : []).some(({ workload, filter, excludeAll }) => {
    const own = ownName(tool, String(workload))
    return own !== undefined && (excludeAll === true || !passes(filter, own))
  })
  if (isLeftOut) return true
  const members = membersByName(objects, object).values()
  return [...members, identify(object)].some((one) => {
    const own = one.kind === object.kind ? tool : ownName(tool, one.name)
    return own !== undefined && !passes(findFilter(objects, one), own)
  })
}

const passes = (filter: unknown, name: string): boolean =>
  !Array.isArray(filter) || filter.length === 0 || filter.includes(name)

/** Returns the filter of the MCPToolConfig that an object names. */
function findFilter(objects: ObjectIndex, { kind, namespace, name }: ObjectId): unknown {
  const named = objects.references(kind, namespace, name).find((one) => one.kind === 'MCPToolConfig')
  return named && at(objects.get(named.kind, namespace, named.name), 'spec', 'toolsFilter')
}

function filterStep(context: CallContext): Step {
  const { question, explanation, listed } = context
  const of = (passed: boolean | null, says: string): Step => ({ step: 'tool filter', passed, says })
  if (isFilteredOut(context)) return of(false, 'the filter of its server leaves this tool out')
  const exists = isObject(explanation) ? explanation['exists'] : listed?.includes(question.tool)
  if (exists === true) return of(true, 'the tool is shown')
  // The list contains no tools of the servers if it offers tool search.
  if (exists === undefined || listed?.includes(SEARCH) === true)
    return of(null, 'it is not known whether the tool is shown')
  return of(false, 'there is no tool of this name')
}

/** The tool that is listed in place of all others if there is tool search. */
const SEARCH = 'find_tool'
const NO_POLICIES = 'no policies are in force'

function policyStep({ explanation }: CallContext): Step {
  if (!isObject(explanation)) return { step: 'policy', passed: null, says: NO_POLICIES }
  const { allowed, reason } = isObject(explanation['policy']) ? explanation['policy'] : explanation
  if (reason === NO_POLICIES) return { step: 'policy', passed: null, says: NO_POLICIES }
  // Scopes are a separate step.
  if (String(reason).startsWith('the token lacks the scope'))
    return { step: 'policy', passed: true, says: 'the policies allow it' }
  return { step: 'policy', passed: allowed === true, says: String(reason).slice(0, 500) }
}

function rateStep({ reports, question: { tool } }: CallContext): Step {
  const limits = reports.flatMap((report) => {
    const found = at(report, 'status', 'rateLimits', 'limits')
    return Array.isArray(found) ? found.filter(isObject) : []
  })
  const own = limits.filter((limit) => limit['tool'] === null || limit['tool'] === tool)
  if (own.length === 0) return { step: 'rate', passed: null, says: 'no limit counts this call' }
  const full = own.filter(({ refuses }) => refuses === true)
  const shared = full.find(({ bucket }) => bucket === 'shared')
  if (shared) return { step: 'rate', passed: false, says: `${limitText(shared)} refuses all callers now` }
  if (full[0] === undefined) return { step: 'rate', passed: true, says: 'no limit refuses it now' }
  return { step: 'rate', passed: null, says: `${limitText(full[0])} for each user refuses at least one user now` }
}

const limitText = ({ maxTokens, refillPeriod }: Readonly<Record<string, unknown>>): string =>
  `the limit of ${maxTokens} ${maxTokens === 1 ? 'call' : 'calls'} in ${refillPeriod}`
