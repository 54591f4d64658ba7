import { LRUCache } from 'lru-cache'
import type { Arguments, ReadArguments } from './arguments.ts'
import { type Compiled, compiledOf } from './compile.ts'
import { EngineFault } from './engine.ts'
import { type Asked, Situation } from './evaluate/situation.ts'
import { firstLine } from './policy-text.ts'
import { type Claims, type Principal, principals } from './principal.ts'
import { attributesOf, authorizationRequest } from './request.ts'
import { type Slice, Slices } from './slices.ts'
import type { PolicySource, Subject } from './source.ts'
import { type CedarValue, Unjudgeable } from './values.ts'

/** A policy that an explanation names. */
interface NamedPolicy {
  /** `policies/3`, or `policies/3.1` for the first of several in that text. */
  readonly policy: string
  /** Its `@id`. */
  readonly id?: string
  readonly effect: 'permit' | 'forbid'
  readonly text: string
}

export interface Explanation {
  readonly allowed: boolean
  readonly reason: string
  /** The policies that decided. */
  readonly policies: readonly NamedPolicy[]
  /** Policies that could not be evaluated, each of which denies. */
  readonly errors: readonly (NamedPolicy & { readonly message: string })[]
}

interface Verdict {
  readonly allowed: boolean
  readonly reasons: readonly string[]
  readonly errors: readonly { readonly policyId: string; readonly message: string }[]
  /** Why nothing was evaluated. */
  readonly unjudgeable?: string
}

/** Arguments under the names of their attributes. */
type Given = Readonly<Record<string, CedarValue>>

const MOST_BYTES = 8 * 1024 * 1024
/** What an entry costs beside its key. */
const ENTRY_BYTES = 150
/** A longer name or URI is not judged, and not kept. */
const LONGEST_ID = 8192
const NO_ARGUMENTS: Arguments = {}

/** Policies in force: who may do what. What is not permitted is denied, and so is what can't be judged. */
export class Policies {
  readonly principalOf: (id: string, claims: Claims) => Principal
  readonly #compiled: Compiled
  readonly #slices: Slices
  readonly #server: string
  readonly #decisions = new LRUCache<string, boolean>({ maxSize: MOST_BYTES })

  /** `server`: the parent of all that is asked for, as `MCP::"…"`. Throws a PolicyError. */
  constructor(source: PolicySource, server: string) {
    this.#compiled = compiledOf(source)
    this.#slices = new Slices(this.#compiled)
    this.#server = server
    this.principalOf = principals(this.#compiled, source)
  }

  /** Somebody of whom nothing is known: nothing is permitted, and `why` explains it. */
  unknown(why: string): Principal {
    return { id: '', groups: [], claims: {}, digest: 'unknown', unjudgeable: why }
  }

  /** The arguments that decisions about a subject depend on. */
  argumentsOf(subject: Subject): ReadArguments {
    return this.#slices.of(subject).arguments
  }

  /** Whether the principal may. Decisions that depend on no argument are kept, as long as there is room. */
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

  /** Which policies allow or deny. */
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

  /** Decides here where it can, and has the engine decide the rest. */
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
      // A policy that can't be evaluated may be the one that forbids.
      return { allowed: decision === 'allow' && errors.length === 0, reasons: diagnostics.reason, errors }
    } catch (error) {
      if (error instanceof EngineFault) return denied(error.message)
      throw error
    }
  }
}

/** What policies see of the arguments of a call: undefined where they read none of them. */
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
