import { entityKey } from '../expressions.ts'
import type { Subject } from '../source.ts'
import type { CedarValue } from '../values.ts'

type Values = Readonly<Record<string, CedarValue>>

export class Entity {
  readonly type: string
  readonly key: string

  constructor(type: string, id: string) {
    this.type = type
    this.key = entityKey(type, id)
  }
}

export interface Asked {
  readonly principal: { readonly id: string; readonly groups: readonly string[]; readonly claims: Values }
  readonly subject: Subject
  /** The arguments as `arg_<name>`. */
  readonly given: Values
  /** The parent of all resources. */
  readonly server: string
  readonly groupEntityType: string
}

const own = (values: Values, name: string): CedarValue | undefined =>
  Object.hasOwn(values, name) ? values[name] : undefined

/** The request in the form that expressions read. Only its entities have attributes or parents. */
export class Situation {
  readonly principal: Entity
  readonly action: Entity
  readonly resource: Entity
  readonly #asked: Asked
  readonly #attributes: Values
  #groups: ReadonlySet<string> | undefined

  /** `attributes`: those of the resource, without the call's arguments. */
  constructor(asked: Asked, attributes: Values) {
    const { principal, subject } = asked
    this.#asked = asked
    this.#attributes = attributes
    this.principal = new Entity('Client', principal.id.toWellFormed())
    this.action = new Entity('Action', subject.action)
    this.resource = new Entity(subject.type, subject.id.toWellFormed())
  }

  attribute({ key }: Entity, name: string): CedarValue | undefined {
    if (key === this.principal.key) return own(this.#asked.principal.claims, name)
    if (key === this.resource.key) return own(this.#asked.given, name) ?? own(this.#attributes, name)
    return undefined
  }

  context(name: string): CedarValue | undefined {
    return own(this.#asked.given, name) ?? own(this.#asked.principal.claims, name)
  }

  /** Tells whether an entity is another one, or a descendant of it. */
  isIn({ key }: Entity, other: Entity): boolean {
    if (key === other.key) return true
    if (key === this.principal.key) return this.#groupsOfCaller().has(other.key)
    return key === this.resource.key && this.#isParentOfResource(other)
  }

  #groupsOfCaller(): ReadonlySet<string> {
    const { principal, groupEntityType } = this.#asked
    this.#groups ??= new Set(principal.groups.map((group) => entityKey(groupEntityType, group)))
    return this.#groups
  }

  #isParentOfResource({ type, key }: Entity): boolean {
    const { subject, server } = this.#asked
    if (type === 'MCP') return key === entityKey('MCP', server)
    return type === 'Backend' && subject.backend !== undefined && key === entityKey('Backend', subject.backend)
  }
}
