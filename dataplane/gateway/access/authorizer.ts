import { isObject, memoize } from '../../../crds/settings/json.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Caller } from '../../identity/caller.ts'
import {
  type Claims,
  type Explanation,
  Policies,
  type Principal,
  type ReadArguments,
  type Subject,
} from '../../policy/index.ts'
import type { Catalog } from '../aggregation/catalog.ts'
import type { PromptResourceCatalog } from '../aggregation/prompt-resource-catalog.ts'
import type { Route } from '../aggregation/shape.ts'
import { foldName, Members } from '../mcp/json.ts'
import type { Message } from '../mcp/message.ts'
import { promptSubject, resourceAt, resourceSubject, skillSubject, toolSubject } from './subjects.ts'
import { VisibleLists } from './visible-lists.ts'

const NO_CLAIMS: Claims = {}

interface AskedTool {
  readonly catalog: Catalog
  /** The name that clients use. */
  readonly name: string
  /** The tool's route; undefined if it does not exist. */
  readonly route: Route | undefined
}

const NO_ARGUMENTS = {}

const foldedNames = memoize((read: ReadArguments) => new Set([...read.names].map(foldName)))

/** The actions that policies decide, by name. */
type PolicyAction = 'call_tool' | 'get_prompt' | 'read_resource'

/** Decides by the current policies what a caller may do. Every path that leads to a backend uses it. */
export class Authorizer {
  readonly lists: VisibleLists
  readonly decisions: Decisions
  readonly #policies: Policies
  /** The provider whose claims replace those of the caller's token. */
  readonly #provider: string | undefined

  /** Returns the principal of a caller, who stays one object while its token is known. */
  readonly principalOf = memoize((caller: Caller) => this.#newPrincipal(caller))

  /** @param decisions the counters of the previous instance, which continue */
  constructor(policies: Policies, provider?: string, decisions = new Decisions()) {
    this.decisions = decisions
    this.#policies = policies
    this.#provider = provider
    this.lists = new VisibleLists(policies)
  }

  #newPrincipal(caller: Caller): Principal {
    if (this.#provider === undefined) {
      if (caller.kind === 'anonymous') return this.#policies.principalOf('anonymous', NO_CLAIMS)
      return this.#policies.principalOf(caller.subject, caller.claims)
    }
    const policyIdentity = caller.kind === 'anonymous' ? undefined : caller.policyIdentity
    if (policyIdentity !== undefined && 'claims' in policyIdentity)
      return this.#policies.principalOf(policyIdentity.subject, policyIdentity.claims)
    const why = policyIdentity?.unknown ?? `the caller has not logged in at ${JSON.stringify(this.#provider)}`
    return this.#policies.unknown(why)
  }

  mayCall(caller: Caller, tool: AskedTool, message: Message): boolean {
    return this.decisions.count('call_tool', this.wouldAllow(caller, tool, message))
  }

  wouldAllow(caller: Caller, { catalog, name, route }: AskedTool, message: Message): boolean {
    return this.#mayWith(caller, toolSubject(catalog, name, route), message)
  }

  mayGet(caller: Caller, catalog: PromptResourceCatalog, name: string, message: Message): boolean {
    return this.decisions.count('get_prompt', this.#mayWith(caller, promptSubject(catalog, name), message))
  }

  /** Tells whether the caller may get a prompt without arguments, for requests that only refer to it. */
  mayGetPlain(caller: Caller, catalog: PromptResourceCatalog, name: string): boolean {
    return this.#policies.allows(this.principalOf(caller), promptSubject(catalog, name))
  }

  /** Tells whether the caller may call a tool without arguments, for requests about a call in progress. */
  mayCallPlain(caller: Caller, catalog: Catalog, name: string): boolean {
    const subject = toolSubject(catalog, name, catalog.routes.get(name) ?? catalog.ownNames.get(name))
    return this.#policies.allows(this.principalOf(caller), subject)
  }

  /** A file of a skill also needs the right to read the skill's SKILL.md. */
  mayRead(caller: Caller, catalog: PromptResourceCatalog, uri: string): boolean {
    const principal = this.principalOf(caller)
    const subject = resourceSubject(catalog, uri)
    const besides = skillSubject(catalog, subject)
    const isAllowed =
      this.#policies.allows(principal, subject) && (besides === undefined || this.#policies.allows(principal, besides))
    return this.decisions.count('read_resource', isAllowed)
  }

  /** Tells whether a backend's message about one of its resources may go to the caller. */
  mayHearOf(caller: Caller, uri: string, backend: string): boolean {
    return this.#policies.allows(this.principalOf(caller), resourceAt(uri, backend))
  }

  #mayWith(caller: Caller, subject: Subject, message: Message): boolean {
    const given = readPolicyArguments(message, this.#policies.argumentsOf(subject))
    return given !== undefined && this.#policies.allows(this.principalOf(caller), subject, given)
  }

  explain(caller: Caller, subject: Subject, given: Readonly<Record<string, unknown>>): Explanation {
    return this.#policies.explain(this.#newPrincipal(caller), subject, given)
  }
}

/**
 * Returns the authorizer of a configuration; undefined if it has no policies. `before` is reused if its policies are
 * the same.
 */
export function createAuthorizer(
  { authz, name }: GatewayConfig,
  before?: { readonly config: GatewayConfig; readonly authorizer: Authorizer | undefined },
): Authorizer | undefined {
  if (authz === undefined) return undefined
  const key = (config: GatewayConfig) => JSON.stringify([config.name, config.authz])
  if (before?.authorizer !== undefined && key(before.config) === key({ authz, name } as GatewayConfig))
    return before.authorizer
  return new Authorizer(new Policies(authz, name), authz.primaryUpstreamProvider, before?.authorizer?.decisions)
}

/**
 * Returns the arguments that policies read from a request. Returns undefined if another parser could read a different
 * value, because a name occurs twice or in another spelling by case.
 */
function readPolicyArguments(message: Message, read: ReadArguments): Readonly<Record<string, unknown>> | undefined {
  const given = message.params?.['arguments']
  const { names } = read
  if (names.size === 0 || given === undefined || given === null) return NO_ARGUMENTS
  if (!isObject(given)) return undefined
  const folded = foldedNames(read)
  const seen = new Set<string>()
  const members = new Members(message.text, message.argumentsStart)
  while (members.next()) {
    const { key } = members
    if (!folded.has(foldName(key))) continue
    // V8 13.6, after it has parsed some objects, assigns a name with an escape to another member.
    if (!names.has(key) || seen.has(key) || !Object.hasOwn(given, key)) return undefined
    seen.add(key)
  }
  return given
}

/** The numbers of requests that policies have allowed and denied. */
export class Decisions {
  readonly counts: Readonly<Record<PolicyAction, { allowed: number; denied: number }>> = {
    call_tool: { allowed: 0, denied: 0 },
    get_prompt: { allowed: 0, denied: 0 },
    read_resource: { allowed: 0, denied: 0 },
  }

  count(action: PolicyAction, isAllowed: boolean): boolean {
    this.counts[action][isAllowed ? 'allowed' : 'denied']++
    return isAllowed
  }
}
