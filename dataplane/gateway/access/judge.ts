import { isObject } from '../../../crds/settings/json.ts'
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
import type { Catalog, Route } from '../aggregation/catalog.ts'
import type { PromptResourceCatalog } from '../aggregation/prompt-resource-catalog.ts'
import { foldName, Members } from '../mcp/json.ts'
import type { Message } from '../mcp/message.ts'
import { memoized, promptSubject, resourceAt, resourceSubject, toolSubject } from './subjects.ts'
import { VisibleLists } from './visible-lists.ts'

const NO_CLAIMS: Claims = {}

/** A tool as a client asks for it. */
interface AskedTool {
  readonly catalog: Catalog
  /** As clients know it. */
  readonly name: string
  /** Undefined where there is none. */
  readonly route: Route | undefined
}

const NO_ARGUMENTS = {}

const foldedNames = memoized((read: ReadArguments) => new Set([...read.names].map(foldName)))

/** What policies have been asked of: the names are those of the actions. */
type JudgedAction = 'call_tool' | 'get_prompt' | 'read_resource'

interface Decided {
  allowed: number
  denied: number
}

/** Decides by the policies in force what a caller may do: the one place for every way that leads to a backend. */
export class Judge {
  readonly lists: VisibleLists
  readonly decisions: Decisions
  readonly #policies: Policies
  /** The provider whose claims are judged, in place of those of the caller's token. */
  readonly #provider: string | undefined
  /** A caller is one object for as long as its token is known. */
  readonly #principals = new WeakMap<Caller, Principal>()

  /** `decisions`: those of the judge before, which are counted on. */
  constructor(policies: Policies, provider?: string, decisions = new Decisions()) {
    this.decisions = decisions
    this.#policies = policies
    this.#provider = provider
    this.lists = new VisibleLists(policies)
  }

  principalOf(caller: Caller): Principal {
    let principal = this.#principals.get(caller)
    if (principal === undefined) this.#principals.set(caller, (principal = this.#newPrincipal(caller)))
    return principal
  }

  #newPrincipal(caller: Caller): Principal {
    if (this.#provider === undefined) {
      if (caller.kind === 'anonymous') return this.#policies.principalOf('anonymous', NO_CLAIMS)
      return this.#policies.principalOf(caller.subject, caller.claims)
    }
    const judged = caller.kind === 'anonymous' ? undefined : caller.judged
    if (judged !== undefined && 'claims' in judged) return this.#policies.principalOf(judged.subject, judged.claims)
    const why = judged?.unknown ?? `the caller has not logged in at ${JSON.stringify(this.#provider)}`
    return this.#policies.unknown(why)
  }

  mayCall(caller: Caller, tool: AskedTool, message: Message): boolean {
    return this.decisions.count('call_tool', this.wouldAllow(caller, tool, message))
  }

  /** The same, for what is not yet decided by it: it is not counted. */
  wouldAllow(caller: Caller, { catalog, name, route }: AskedTool, message: Message): boolean {
    return this.#mayWith(caller, toolSubject(catalog, name, route), message)
  }

  mayGet(caller: Caller, catalog: PromptResourceCatalog, name: string, message: Message): boolean {
    return this.decisions.count('get_prompt', this.#mayWith(caller, promptSubject(catalog, name), message))
  }

  /** Whether a prompt may be got without any arguments, for what only refers to it. */
  mayGetPlain(caller: Caller, catalog: PromptResourceCatalog, name: string): boolean {
    return this.#policies.allows(this.principalOf(caller), promptSubject(catalog, name))
  }

  /** The same for a tool, of a call that is under way. */
  mayCallPlain(caller: Caller, catalog: Catalog, name: string): boolean {
    const subject = toolSubject(catalog, name, catalog.routes.get(name) ?? catalog.ownNames.get(name))
    return this.#policies.allows(this.principalOf(caller), subject)
  }

  mayRead(caller: Caller, catalog: PromptResourceCatalog, uri: string): boolean {
    const isAllowed = this.#policies.allows(this.principalOf(caller), resourceSubject(catalog, uri))
    return this.decisions.count('read_resource', isAllowed)
  }

  /** The same for what a backend says of one of its resources. */
  mayHearOf(caller: Caller, uri: string, backend: string): boolean {
    return this.#policies.allows(this.principalOf(caller), resourceAt(uri, backend))
  }

  #mayWith(caller: Caller, subject: Subject, message: Message): boolean {
    const given = judgedArguments(message, this.#policies.argumentsOf(subject))
    return given !== undefined && this.#policies.allows(this.principalOf(caller), subject, given)
  }

  explain(caller: Caller, subject: Subject, given: Readonly<Record<string, unknown>>): Explanation {
    return this.#policies.explain(this.#newPrincipal(caller), subject, given)
  }
}

/** The judge of a configuration; undefined where it has no policies. `before`: one that may still be right. */
export function judgeOf(
  { authz, name }: GatewayConfig,
  before?: { readonly config: GatewayConfig; readonly judge: Judge | undefined },
): Judge | undefined {
  if (authz === undefined) return undefined
  const key = (config: GatewayConfig) => JSON.stringify([config.name, config.authz])
  if (before?.judge !== undefined && key(before.config) === key({ authz, name } as GatewayConfig)) return before.judge
  return new Judge(new Policies(authz, name), authz.primaryUpstreamProvider, before?.judge?.decisions)
}

/**
 * The arguments of a request, for policies that read some of them. Undefined where a parser other than ours
 * may read another value than we do: a name that stands there twice, or in another spelling by case, which some parsers
 * take for the same.
 */
function judgedArguments(message: Message, read: ReadArguments): Readonly<Record<string, unknown>> | undefined {
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
    if (!names.has(key) || seen.has(key)) return undefined
    seen.add(key)
  }
  return given
}

/** How often policies have allowed and denied what callers asked for. */
export class Decisions {
  readonly counts: Readonly<Record<JudgedAction, Decided>> = {
    call_tool: { allowed: 0, denied: 0 },
    get_prompt: { allowed: 0, denied: 0 },
    read_resource: { allowed: 0, denied: 0 },
  }

  /** Counts a decision, which it gives back. */
  count(action: JudgedAction, isAllowed: boolean): boolean {
    const decided = this.counts[action]
    if (isAllowed) decided.allowed++
    else decided.denied++
    return isAllowed
  }
}
