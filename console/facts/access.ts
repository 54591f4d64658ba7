import { isObject } from '../../crds/settings/json.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import type { Report } from '../places/place.ts'
import type { DeniedCall } from './denied.ts'
import type { Headed } from './workload.ts'

/** A step on the way of a call. */
export interface Step {
  readonly step: 'token' | 'tool filter' | 'policy' | 'rate'
  /** Null if the step does not exist here. */
  readonly passed: boolean | null
  readonly says: string
}

export interface AccessFacts extends Headed {
  /** Names of tools that the viewer sees, to choose from. */
  readonly tools: readonly string[]
  readonly question: { readonly claims: string; readonly tool: string; readonly arguments: string }
  /** Null until something was asked. */
  readonly verdict: 'allowed' | 'denied' | null
  readonly steps: readonly Step[]
  /** The answer of `POST /explain`; null if nothing was asked, or there are no policies. */
  readonly explanation: unknown
  readonly error: string | null
  /** The right that is missing, as a line for kubectl. */
  readonly right: string | null
  readonly denied: readonly DeniedCall[]
  readonly deniedMissing: string | null
}

interface Asked {
  readonly object: KubernetesObject
  readonly question: AccessFacts['question']
  readonly caller: Readonly<Record<string, unknown>> | undefined
  readonly reports: readonly Report[]
  /** The answer; undefined if no policies are in force. */
  readonly explanation: unknown
}

/** Explains a call step by step: the token, the tools that are shown, the policies, the limits. */
export function accessSteps(asked: Asked): readonly Step[] {
  return [tokenStep(asked), filterStep(asked), policyStep(asked), rateStep(asked)]
}

function authTypeOf({ spec }: KubernetesObject): string {
  const { incomingAuth, oidcConfigRef } = isObject(spec) ? spec : {}
  if (isObject(incomingAuth) && typeof incomingAuth['type'] === 'string') return incomingAuth['type']
  return oidcConfigRef === undefined ? 'anonymous' : 'oidc'
}

function tokenStep({ object, caller }: Asked): Step {
  if (authTypeOf(object) === 'anonymous') return { step: 'token', passed: null, says: 'callers are anonymous' }
  return caller === undefined
    ? { step: 'token', passed: false, says: 'callers need a token, and an anonymous one has none' }
    : { step: 'token', passed: true, says: 'a token with these claims, from an issuer that is trusted' }
}

/** Returns the filter of the tools of a gateway's server, as its spec has it. */
function isFilteredOut({ spec }: KubernetesObject, tool: string): boolean {
  const config = isObject(spec) && isObject(spec['config']) ? spec['config'] : {}
  const aggregation = isObject(config['aggregation']) ? config['aggregation'] : {}
  const tools = Array.isArray(aggregation['tools']) ? aggregation['tools'].filter(isObject) : []
  return tools.some(({ workload, filter, excludeAll }) => {
    const own = tool.startsWith(`${String(workload)}_`) ? tool.slice(String(workload).length + 1) : undefined
    if (own === undefined) return false
    return excludeAll === true || (Array.isArray(filter) && filter.length > 0 && !filter.includes(own))
  })
}

function filterStep({ object, question: { tool }, explanation }: Asked): Step {
  if (isFilteredOut(object, tool))
    return { step: 'tool filter', passed: false, says: 'the filter of its server leaves this tool out' }
  const exists = isObject(explanation) ? explanation['exists'] : undefined
  if (exists === false) return { step: 'tool filter', passed: false, says: 'there is no tool of this name' }
  return {
    step: 'tool filter',
    passed: exists === true ? true : null,
    says: exists === true ? 'the tool is shown' : 'not known without policies',
  }
}

function policyStep({ explanation }: Asked): Step {
  if (!isObject(explanation)) return { step: 'policy', passed: null, says: 'no policies are in force' }
  return { step: 'policy', passed: explanation['allowed'] === true, says: String(explanation['reason']).slice(0, 500) }
}

function rateStep({ reports, question: { tool } }: Asked): Step {
  const limits = reports.flatMap((report) => {
    const rateLimits = 'status' in report ? report.status['rateLimits'] : undefined
    return isObject(rateLimits) && Array.isArray(rateLimits['limits']) ? rateLimits['limits'].filter(isObject) : []
  })
  const own = limits.filter((limit) => limit['tool'] === null || limit['tool'] === tool)
  if (own.length === 0) return { step: 'rate', passed: null, says: 'no limit counts this call' }
  const full = own.find(({ refuses }) => refuses === true)
  if (full === undefined) return { step: 'rate', passed: true, says: 'no limit refuses it now' }
  const whom = full['bucket'] === 'shared' ? 'everybody' : 'some user'
  return {
    step: 'rate',
    passed: false,
    says: `the limit of ${full['maxTokens']} calls in ${full['refillPeriod']} refuses ${whom} now`,
  }
}

/** Returns the facts of the page before anything was asked. */
export const accessOf = (head: Headed, question: AccessFacts['question']): AccessFacts => ({
  ...head,
  tools: [],
  question,
  verdict: null,
  steps: [],
  explanation: null,
  error: null,
  right: null,
  denied: [],
  deniedMissing: null,
})
