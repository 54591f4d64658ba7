import { LRUCache } from 'lru-cache'
import type { Arguments, ReadArguments } from './arguments.ts'
import type { CallNeed } from './call-need.ts'
import { type Compiled, compiledOf } from './compile.ts'
import { EngineFault } from './engine.ts'
import { type Asked, Situation } from './evaluate/situation.ts'
import { firstLine } from './policy-text.ts'
import { type Claims, type Principal, principals } from './principal.ts'
import { attributesOf, authorizationRequest } from './request.ts'
import { type Slice, Slices } from './slices.ts'
import type { PolicySource, Subject } from './source.ts'
import { type CedarValue, Unjudgeable } from './values.ts'

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
  /** What the catalog gate says of the backend, and the policies of the rest. Absent without a gate. */
  readonly catalog?: Said
  readonly policy?: Said
  /** Further requirements for the caller; absent if there are none. */
  readonly needs?: readonly CallNeed[]
}

interface Said {
  readonly allowed: boolean
  readonly reason: string
}

interface Verdict {
  readonly allowed: boolean
  readonly reasons: readonly string[]
  readonly errors: readonly { readonly policyId: string; readonly message: string }[]
  /** The reason why nothing was evaluated. */
  readonly unjudgeable?: string
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
    this.#compiled = compiledOf(source)
    this.#slices = new Slices(this.#compiled)
    this.#server = server
    this.principalOf = principals(this.#compiled, source)
  }

  unknown(why: string): Principal {
    return { id: '', groups: [], claims: {}, digest: 'unknown', unjudgeable: why }
  }

  /** Returns the arguments that decisions about a subject depend on. */
  argumentsOf(subject: Subject): ReadArguments {
    return this.#slices.of(subject).arguments
  }

  /** Tells whether the principal is allowed. It caches decisions that depend on no argument, within a limit. */
  allows(principal: Principal, subject: Subject, given: Arguments = NO_ARGUMENTS): boolean {
    if (principal.unjudgeable !== undefined || subject.id.length > LONGEST_ID) return false
    const slice = this.#slices.of(subject)
    const read = readOf(slice, given)
    if (read instanceof Unjudgeable) return false
    if (read !== undefined) return this.#decide(slice, principal, subject, read).allowed
    const key = `${principal.digest}${subject.key}`
    const known = this.#decisions.get(key)
    if (known !== undefined) return known
    const { allowed, unjudgeable } = this.#decide(slice, principal, subject, {})
    if (unjudgeable === undefined) this.#decisions.set(key, allowed, { size: 2 * key.length + ENTRY_BYTES })
    return allowed
  }

  /** Returns the policies that allow or deny. */
  explain(principal: Principal, subject: Subject, given: Arguments = NO_ARGUMENTS): Explanation {
    const { allowed, reasons, errors, unjudgeable } = this.#explained(principal, subject, given)
    return {
      allowed,
      reason: unjudgeable ?? reasonOf(allowed, reasons.length, errors.length),
      policies: reasons.map((name) => this.#named(name)),
      errors: errors.map(({ policyId, message }) => ({ ...this.#named(policyId), message })),
    }
  }

  #explained(principal: Principal, subject: Subject, given: Arguments): Verdict {
    const slice = this.#slices.of(subject)
    const read = readOf(slice, given)
    const tooLong = subject.id.length > LONGEST_ID ? 'the name or URI is too long' : undefined
    const why = principal.unjudgeable ?? tooLong ?? (read instanceof Unjudgeable ? read.message : undefined)
    if (why !== undefined || read instanceof Unjudgeable) return denied(why)
    return this.#judge(slice, principal, subject, read ?? {})
  }

  #named(name: string): NamedPolicy {
    const policy = this.#compiled.policies.find((one) => one.name === name)
    const { id, effect = 'permit', text = '' } = policy ?? {}
    return { policy: `policies/${name}`, ...(id === undefined ? {} : { id }), effect, text: firstLine(text) }
  }

  /** Decides here if possible, else with the engine. */
  #decide(
    slice: Slice,
    principal: Principal,
    subject: Subject,
    given: Given,
  ): Pick<Verdict, 'allowed' | 'unjudgeable'> {
    const allowed = slice.decide(new Situation(this.#asked(principal, subject, given), attributesOf(subject)))
    return allowed === undefined ? this.#judge(slice, principal, subject, given) : { allowed }
  }

  #asked(principal: Principal, subject: Subject, given: Given): Asked {
    return { principal, subject, given, server: this.#server, groupEntityType: this.#compiled.groupEntityType }
  }

  #judge(slice: Slice, principal: Principal, subject: Subject, given: Given): Verdict {
    try {
      const asked = this.#asked(principal, subject, given)
      const answer = slice.authorize(authorizationRequest(asked, slice.reads, this.#compiled))
      if (answer.type === 'failure') return denied(answer.errors.map(({ message }) => message).join('; '))
      const { decision, diagnostics } = answer.response
      const errors = diagnostics.errors.map(({ policyId, error }) => ({ policyId, message: error.message }))
      // A policy with an evaluation error may be the one that forbids.
      return { allowed: decision === 'allow' && errors.length === 0, reasons: diagnostics.reason, errors }
    } catch (error) {
      if (error instanceof EngineFault) return denied(error.message)
      throw error
    }
  }
}

/** Returns the arguments of a call that policies read; undefined if they read none. */
function readOf(slice: Slice, given: Arguments): Given | undefined | Unjudgeable {
  try {
    return slice.arguments.of(given)
  } catch (error) {
    if (error instanceof Unjudgeable) return error
    throw error
  }
}

const denied = (unjudgeable: string | undefined): Verdict => ({
  allowed: false,
  reasons: [],
  errors: [],
  ...(unjudgeable === undefined ? {} : { unjudgeable }),
})

function reasonOf(allowed: boolean, policies: number, errors: number): string {
  if (allowed) return 'a policy permits it, and none forbids it'
  if (errors > 0) return 'a policy can’t be evaluated'
  return policies > 0 ? 'a policy forbids it' : 'no policy permits it'
}
