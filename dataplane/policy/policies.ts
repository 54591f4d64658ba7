import { LRUCache } from 'lru-cache'
import { isObject } from '../../crds/settings/json.ts'
import { type Compiled, compileOnce } from './compile.ts'
import { EngineFault } from './engine.ts'
import { type DecisionInput, DecisionRequest } from './evaluate.ts'
import { firstLine } from './policy-text.ts'
import { type Claims, type Principal, principals } from './principal.ts'
import { authorizationRequest, buildAttributes } from './request.ts'
import { type Slice, Slices } from './slices.ts'
import type { PolicySource, Subject } from './source.ts'
import { type Arguments, type CedarValue, type ReadArguments, UnsupportedValue } from './values.ts'

interface NamedPolicy {
  /** `policies/3`, or `policies/3.1` for the first of several in that text. */
  readonly policy: string
  readonly id?: string
  readonly effect: 'permit' | 'forbid'
  readonly text: string
}

export interface Explanation {
  readonly allowed: boolean
  readonly reason: string
  readonly policies: readonly NamedPolicy[]
  /** Policies with an evaluation error, each of which denies. */
  readonly errors: readonly (NamedPolicy & { readonly message: string })[]
  /** The scopes that the tool needs, and those that the caller's token has and lacks. Absent if it needs none. */
  readonly scopes?: {
    readonly needed: readonly string[]
    readonly held: readonly string[]
    readonly missing: readonly string[]
  }
  /** The decisions of the catalog gate and of the policies, one by one. Absent without a gate. */
  readonly catalog?: PartialDecision
  readonly policy?: PartialDecision
  /** Further requirements for the caller; absent if there are none. */
  readonly needs?: readonly CallNeed[]
}

interface PartialDecision {
  readonly allowed: boolean
  readonly reason: string
}

interface Verdict {
  readonly allowed: boolean
  readonly reasons: readonly string[]
  readonly errors: readonly { readonly policyId: string; readonly message: string }[]
  /** The reason why nothing was evaluated. */
  readonly problem?: string
}

type Given = Readonly<Record<string, CedarValue>>

const MOST_BYTES = 8 * 1024 * 1024
/** The size of an entry besides its key. */
const ENTRY_BYTES = 150
/** The longest name or URI. A longer one is denied and not cached. */
const LONGEST_ID = 8192
const NO_ARGUMENTS: Arguments = {}

/** The policies in force. Requests that are not permitted, or can't be evaluated, are denied. */
export class Policies {
  readonly principalOf: (id: string, claims: Claims) => Principal
  readonly #compiled: Compiled
  readonly #slices: Slices
  readonly #server: string
  readonly #decisions = new LRUCache<string, boolean>({ maxSize: MOST_BYTES })

  /** `server`: the parent of all resources, as `MCP::"…"`. Throws a PolicyError. */
  constructor(source: PolicySource, server: string) {
    this.#compiled = compileOnce(source)
    this.#slices = new Slices(this.#compiled)
    this.#server = server
    this.principalOf = principals(this.#compiled, source)
  }

  unknown(why: string): Principal {
    return { id: '', groups: [], claims: {}, digest: 'unknown', problem: why }
  }

  /** Returns the arguments that decisions about a subject depend on. */
  argumentsOf(subject: Subject): ReadArguments {
    return this.#slices.of(subject).arguments
  }

  /** Tells whether the principal is allowed. It caches decisions that depend on no argument, within a limit. */
  allows(principal: Principal, subject: Subject, given: Arguments = NO_ARGUMENTS): boolean {
    if (principal.problem !== undefined || subject.id.length > LONGEST_ID) return false
    const slice = this.#slices.of(subject)
    const read = readArguments(slice, given)
    if (read instanceof UnsupportedValue) return false
    if (read !== undefined) return this.#decide(slice, principal, subject, read).allowed
    const key = `${principal.digest}${subject.key}`
    const known = this.#decisions.get(key)
    if (known !== undefined) return known
    const { allowed, problem } = this.#decide(slice, principal, subject, {})
    if (problem === undefined) this.#decisions.set(key, allowed, { size: 2 * key.length + ENTRY_BYTES })
    return allowed
  }

  /** Returns the decision with the policies that allow or deny. */
  explain(principal: Principal, subject: Subject, given: Arguments = NO_ARGUMENTS): Explanation {
    const { allowed, reasons, errors, problem } = this.#explain(principal, subject, given)
    return {
      allowed,
      reason: problem ?? explainDecision(allowed, reasons.length, errors.length),
      policies: reasons.map((name) => this.#findPolicy(name)),
      errors: errors.map(({ policyId, message }) => ({ ...this.#findPolicy(policyId), message })),
    }
  }

  #explain(principal: Principal, subject: Subject, given: Arguments): Verdict {
    const slice = this.#slices.of(subject)
    const read = readArguments(slice, given)
    const tooLong = subject.id.length > LONGEST_ID ? 'the name or URI is too long' : undefined
    const why = principal.problem ?? tooLong ?? (read instanceof UnsupportedValue ? read.message : undefined)
    if (why !== undefined || read instanceof UnsupportedValue) return buildDenial(why)
    return this.#evaluate(slice, principal, subject, read ?? {})
  }

  #findPolicy(name: string): NamedPolicy {
    const policy = this.#compiled.policies.find((one) => one.name === name)
    const { id, effect = 'permit', text = '' } = policy ?? {}
    return { policy: `policies/${name}`, ...(id === undefined ? {} : { id }), effect, text: firstLine(text) }
  }

  /** Decides here if possible, else with the engine. */
  #decide(slice: Slice, principal: Principal, subject: Subject, given: Given): Pick<Verdict, 'allowed' | 'problem'> {
    const allowed = slice.decide(
      new DecisionRequest(this.#inputFor(principal, subject, given), buildAttributes(subject)),
    )
    return allowed === undefined ? this.#evaluate(slice, principal, subject, given) : { allowed }
  }

  #inputFor(principal: Principal, subject: Subject, given: Given): DecisionInput {
    return { principal, subject, given, server: this.#server, groupEntityType: this.#compiled.groupEntityType }
  }

  #evaluate(slice: Slice, principal: Principal, subject: Subject, given: Given): Verdict {
    try {
      const input = this.#inputFor(principal, subject, given)
      const answer = slice.authorize(authorizationRequest(input, slice.reads, this.#compiled))
      if (answer.type === 'failure') return buildDenial(answer.errors.map(({ message }) => message).join('; '))
      const { decision, diagnostics } = answer.response
      const errors = diagnostics.errors.map(({ policyId, error }) => ({ policyId, message: error.message }))
      // A policy with an evaluation error may be the one that forbids.
      return { allowed: decision === 'allow' && errors.length === 0, reasons: diagnostics.reason, errors }
    } catch (error) {
      if (error instanceof EngineFault) return buildDenial(error.message)
      throw error
    }
  }
}

/** Returns the arguments of a call that policies read; undefined if they read none. */
function readArguments(slice: Slice, given: Arguments): Given | undefined | UnsupportedValue {
  try {
    return slice.arguments.of(given)
  } catch (error) {
    if (error instanceof UnsupportedValue) return error
    throw error
  }
}

const buildDenial = (problem: string | undefined): Verdict => ({
  allowed: false,
  reasons: [],
  errors: [],
  ...(problem === undefined ? {} : { problem }),
})

function explainDecision(allowed: boolean, policies: number, errors: number): string {
  if (allowed) return 'a policy permits it, and none forbids it'
  if (errors > 0) return 'a policy can’t be evaluated'
  return policies > 0 ? 'a policy forbids it' : 'no policy permits it'
}

/** A thing that a caller must have for a call besides the permission: a token, or a key or an account of their own. */
export type CallNeed = LoginNeed | KeyNeed | AccountNeed

export interface LoginNeed {
  readonly kind: 'login'
  readonly scopes: readonly string[]
  readonly links: readonly string[]
}

interface KeyNeed {
  readonly kind: 'key'
  readonly backend: string
  readonly provider: string
  readonly title: string
  /** Page that tells how to get such a key. */
  readonly helpUrl?: string
  readonly links: readonly string[]
}

/** A login at a provider that the call asks for, by a link in its answer. */
interface AccountNeed {
  readonly kind: 'account'
  readonly backend: string
  readonly provider: string
  readonly host: string
  /** The page where its owner sees what is linked. */
  readonly links: readonly string[]
}

export interface Question {
  /** The caller's claims with its `sub`; undefined for an anonymous caller. */
  readonly caller: Claims | undefined
  readonly type: Subject['type']
  readonly id: string
  readonly arguments: Readonly<Record<string, unknown>>
}

const types = { tool: 'Tool', prompt: 'Prompt', resource: 'Resource' } as const
const known = new Set([...Object.keys(types), 'caller', 'arguments'])

/** Tells whether a value is a caller with a subject, for an explanation. */
export const isCaller = (value: unknown): value is Claims =>
  isObject(value) && typeof value['sub'] === 'string' && value['sub'] !== ''

/** Reads `{caller, tool | prompt | resource, arguments}`. Returns a message if it is invalid. */
export function readQuestion(value: unknown): Question | string {
  if (!isObject(value)) return 'The body must be a JSON object.'
  const stranger = Object.keys(value).find((name) => !known.has(name))
  if (stranger !== undefined) return `${JSON.stringify(stranger)} has no meaning here.`
  const { caller, arguments: given = {} } = value
  if (caller !== undefined && caller !== null && !isCaller(caller)) return 'caller must hold claims, with a sub.'
  if (!isObject(given)) return 'arguments must be an object.'
  const [asked, ...more] = (Object.keys(types) as (keyof typeof types)[]).filter((name) => value[name] !== undefined)
  const id = asked && value[asked]
  if (asked === undefined || more.length > 0 || typeof id !== 'string')
    return 'Exactly one of tool, prompt and resource must be there, a string.'
  return { caller: caller ?? undefined, type: types[asked], id, arguments: given }
}
