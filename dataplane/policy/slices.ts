import type { StatefulAuthorizationCall } from '@cedar-policy/cedar-wasm/nodejs'
import { type Compiled, load } from './compile.ts'
import { engine } from './engine.ts'
import { type DecisionRequest, decide, type Evaluated } from './evaluate.ts'
import { entityKey, joinReads, type Reads } from './expressions.ts'
import type { PolicyText } from './policy-text.ts'
import type { Subject } from './source.ts'
import { ReadArguments } from './values.ts'

/** The most policies in all slices together. A policy is in each slice that it applies to. */
const MOST_SLICED = 4000

/**
 * The policies that can apply to a resource. A scope that does not match ends the evaluation of a policy before its
 * conditions (Cedar, authorization semantics), so others can't even fail.
 */
export class Slice {
  /** The attributes of caller and resource that these policies read. */
  readonly reads: Reads
  readonly arguments: ReadArguments
  readonly #policies: readonly PolicyText[]
  /** The evaluators of all policies; undefined if one of them needs the engine. */
  readonly #evaluated: readonly Evaluated[] | undefined
  readonly #set: string
  #generation = -1

  /** `hasEntities`: the configuration declares entities, which only the engine knows. */
  constructor(policies: readonly PolicyText[], hasEntities: boolean) {
    this.#policies = policies
    const evaluated = policies.flatMap((policy) => policy.evaluated ?? [])
    this.#evaluated = hasEntities || evaluated.length < policies.length ? undefined : evaluated
    this.#set = engine.nameFor(this)
    this.reads = joinReads(policies.map(({ mentions }) => mentions))
    this.arguments = new ReadArguments([...this.reads.resource, ...this.reads.context])
  }

  /** Returns the decision of these policies; undefined if the engine must decide. */
  decide(request: DecisionRequest): boolean | undefined {
    return this.#evaluated && decide(this.#evaluated, request)
  }

  /** Evaluates with the engine. Throws an EngineFault. */
  authorize(call: Omit<StatefulAuthorizationCall, 'preparsedPolicySetId'>) {
    if (this.#generation !== engine.generation) {
      load(this.#set, this.#policies)
      this.#generation = engine.generation
    }
    return engine.run((cedar) => cedar.statefulIsAuthorized({ ...call, preparsedPolicySetId: this.#set }))
  }
}

/** The policies of a configuration by resource. Each slice is built on its first use. */
export class Slices {
  readonly #policies: readonly PolicyText[]
  /** Resources that have policies of their own; undefined if all policies are one slice. */
  readonly #resources: ReadonlySet<string> | undefined
  readonly #hasEntities: boolean
  readonly #made = new Map<string, Slice>()
  /** Slices by subject: a catalog asks about the same objects again and again. */
  readonly #found = new WeakMap<Subject, Slice>()

  constructor({ policies, entities }: Compiled) {
    this.#policies = policies
    this.#hasEntities = entities.mentioned.size > 0
    const resources = new Set(policies.flatMap(({ only }) => only.resource ?? []))
    const shared = policies.filter(({ only }) => only.resource === undefined).length
    const isWorthIt = policies.length + shared * resources.size <= MOST_SLICED
    this.#resources = isWorthIt ? resources : undefined
  }

  of(subject: Subject): Slice {
    let slice = this.#found.get(subject)
    if (slice === undefined) this.#found.set(subject, (slice = this.#find(subject)))
    return slice
  }

  #find({ action, type, id }: Subject): Slice {
    if (this.#resources === undefined) return this.#slice('', () => true)
    const resource = this.#resources.size === 0 ? '' : entityKey(type, id.toWellFormed())
    const own = this.#resources.has(resource) ? resource : ''
    return this.#slice(action + own, ({ only }) => {
      const isOfAction = only.action === undefined || only.action === entityKey('Action', action)
      return isOfAction && (only.resource === undefined || only.resource === own)
    })
  }

  #slice(key: string, isIn: (policy: PolicyText) => boolean): Slice {
    let slice = this.#made.get(key)
    if (slice === undefined) this.#made.set(key, (slice = new Slice(this.#policies.filter(isIn), this.#hasEntities)))
    return slice
  }
}
