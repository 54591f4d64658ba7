import type { EntityJson, StatefulAuthorizationCall } from '@cedar-policy/cedar-wasm/nodejs'
import { LRUCache } from 'lru-cache'
import { type Arguments, ReadArguments } from './arguments.ts'
import { type Compiled, compile, load } from './compile.ts'
import { EngineFault, engine } from './engine.ts'
import { entityKey } from './expressions.ts'
import { firstLine } from './policy-text.ts'
import { type Claims, type Principal, principals } from './principal.ts'
import type { Action, PolicySource } from './source.ts'
import { type CedarValue, Unjudgeable } from './values.ts'

/** What a caller asks for. */
export interface Subject {
  readonly action: Action
  readonly type: 'Tool' | 'Prompt' | 'Resource'
  /** Name or URI as clients know it. */
  readonly id: string
  /** The backend that has it; undefined where none is known to. */
  readonly backend: string | undefined
  /** Annotations of a tool that are true or false. */
  readonly hints: Readonly<Record<string, boolean>>
  /** The same for no other subject. */
  readonly key: string
}

/** A policy that an explanation names. */
export interface NamedPolicy {
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

const MOST_BYTES = 8 * 1024 * 1024
/** What an entry costs beside its key. */
const ENTRY_BYTES = 150
/** A longer name or URI is not judged, and not kept. */
const LONGEST_ID = 8192
const NO_ARGUMENTS: Arguments = {}

/** Policies in force: who may do what. What is not permitted is denied, and so is what can't be judged. */
export class Policies {
  readonly principalOf: (id: string, claims: Claims) => Principal
  /** Names of the arguments that decisions depend on. */
  readonly readArguments: ReadArguments
  readonly #compiled: Compiled
  readonly #server: string
  readonly #set: string
  readonly #decisions = new LRUCache<string, boolean>({ maxSize: MOST_BYTES })
  #generation = -1

  /** `server`: the parent of all that is asked for, as `MCP::"…"`. Throws a PolicyError. */
  constructor(source: PolicySource, server: string) {
    this.#compiled = compile(source)
    this.#server = server
    this.#set = engine.nameFor(this)
    this.principalOf = principals(this.#compiled, source)
    this.readArguments = new ReadArguments(this.#compiled.attributes)
    this.#load()
  }

  /** Whether the principal may. Decisions that depend on no argument are kept, as long as there is room. */
  allows(principal: Principal, subject: Subject, given: Arguments = NO_ARGUMENTS): boolean {
    if (principal.unjudgeable !== undefined || subject.id.length > LONGEST_ID) return false
    const read = this.#read(given)
    if (read instanceof Unjudgeable) return false
    if (read !== undefined) return this.#judge(principal, subject, read).allowed
    const key = `${principal.digest}${subject.key}`
    const known = this.#decisions.get(key)
    if (known !== undefined) return known
    const { allowed } = this.#judge(principal, subject, {})
    this.#decisions.set(key, allowed, { size: 2 * key.length + ENTRY_BYTES })
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
    const read = this.#read(given)
    const tooLong = subject.id.length > LONGEST_ID ? 'the name or URI is too long' : undefined
    const why = principal.unjudgeable ?? tooLong ?? (read instanceof Unjudgeable ? read.message : undefined)
    if (why !== undefined || read instanceof Unjudgeable) return denied(why)
    return this.#judge(principal, subject, read ?? {})
  }

  #read(given: Arguments): Readonly<Record<string, CedarValue>> | undefined | Unjudgeable {
    try {
      return this.readArguments.of(given)
    } catch (error) {
      if (error instanceof Unjudgeable) return error
      throw error
    }
  }

  #named(name: string): NamedPolicy {
    const policy = this.#compiled.policies.find((one) => one.name === name)
    const { id, effect = 'permit', text = '' } = policy ?? {}
    return { policy: `policies/${name}`, ...(id === undefined ? {} : { id }), effect, text: firstLine(text) }
  }

  #judge(principal: Principal, subject: Subject, args: Readonly<Record<string, CedarValue>>): Verdict {
    try {
      if (this.#generation !== engine.generation) this.#load()
      const request = this.#request(principal, subject, args)
      const answer = engine.run((cedar) => cedar.statefulIsAuthorized(request))
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

  #load(): void {
    load(this.#set, this.#compiled.policies)
    this.#generation = engine.generation
  }

  #request(
    { id, groups, claims }: Principal,
    subject: Subject,
    args: Readonly<Record<string, CedarValue>>,
  ): StatefulAuthorizationCall {
    const { groupEntityType } = this.#compiled
    const principal = { type: 'Client', id: id.toWellFormed() }
    const resource = { type: subject.type, id: subject.id.toWellFormed() }
    const action = { type: 'Action', id: subject.action }
    const server = { type: 'MCP', id: this.#server }
    const backend = subject.backend === undefined ? [] : [{ type: 'Backend', id: subject.backend }]
    const own = [
      { uid: principal, attrs: { ...claims }, parents: groups.map((group) => ({ type: groupEntityType, id: group })) },
      { uid: resource, attrs: { ...attributesOf(subject), ...args }, parents: [server, ...backend] },
    ] as EntityJson[]
    return {
      principal,
      action,
      resource,
      context: { ...claims, ...args } as StatefulAuthorizationCall['context'],
      preparsedPolicySetId: this.#set,
      entities: withDeclared(own, entityKey('Action', subject.action), this.#compiled),
    }
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

const featureOf = { Tool: 'tool', Prompt: 'prompt', Resource: 'resource' } as const
const operationOf = { call_tool: 'call', get_prompt: 'get', read_resource: 'read' } as const

const attributesOf = ({ action, type, id, backend, hints }: Subject) => ({
  ...hints,
  name: id.toWellFormed(),
  ...(type === 'Resource' ? { uri: id.toWellFormed() } : {}),
  ...(backend === undefined ? {} : { backend }),
  feature: featureOf[type],
  operation: operationOf[action],
})

/**
 * Our entities, together with those of the configuration that can be reached from them. One that both have is one: with
 * the parents of both, and our attributes, which nobody declares away.
 */
function withDeclared(own: readonly EntityJson[], action: string, compiled: Compiled): EntityJson[] {
  const { entities: declared, named } = compiled
  if (declared.mentioned.size === 0) return [...own]
  const keyOf = (uid: EntityJson['uid']) => {
    const { type, id } = '__entity' in uid ? uid.__entity : uid
    return entityKey(type, id)
  }
  const starts = own.flatMap(({ uid, parents }) => [keyOf(uid), ...parents.map(keyOf)])
  const reached = declared.reachedFrom([action, ...named, ...starts])
  const merged = own.map((entity) => {
    const key = keyOf(entity.uid)
    const other = declared.get(key)
    reached.delete(key)
    if (other === undefined) return entity
    return {
      ...other,
      uid: entity.uid,
      attrs: { ...other.attrs, ...entity.attrs },
      parents: [...entity.parents, ...other.parents],
    }
  })
  return [...merged, ...reached.values()]
}
