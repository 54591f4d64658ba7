import type { EntityJson } from '@cedar-policy/cedar-wasm/nodejs'
import { isObject } from '../../crds/settings/json.ts'
import type { Steps } from '../../crds/settings/stepwise.ts'
import { engine } from './engine.ts'
import { entityKey, formatKey, readUid } from './expressions.ts'
import { PolicyError } from './source.ts'

const DEEPEST = 32
const MOST_ENTITIES = 10_000

/** The most entities, and characters of them, that are checked in one step. */
const AT_ONCE = { entities: 100, characters: 16 * 1024 } as const
/** The most characters of one entity as JSON. */
const LONGEST_ENTITY = 128 * 1024

/** The most pairs of an entity and an ancestor. The engine takes about a microsecond and 120 bytes for each. */
const MOST_ANCESTORS = 100_000
/** The most steps to find those pairs: parents times their ancestors. */
const MOST_STEPS = 1_000_000

/** Reads declared entities, in steps. Throws a PolicyError if they are not Cedar entities. */
export function* readingEntities(text: string): Steps<DeclaredEntities> {
  const read = parseEntities(text)
  yield
  const declared = new DeclaredEntities()
  let batch: EntityJson[] = []
  let size = 0
  for (const entity of read) {
    const { length } = JSON.stringify(entity)
    if (length > LONGEST_ENTITY) throw invalid(`has an entity of more than ${LONGEST_ENTITY} characters`)
    if (declared.get(formatKey(entity.uid)) !== undefined) throw invalid(`has a duplicate: ${formatKey(entity.uid)}`)
    declared.add(entity)
    batch.push(entity)
    size += length
    if (batch.length < AT_ONCE.entities && size < AT_ONCE.characters) continue
    check(batch)
    yield
    batch = []
    size = 0
  }
  check(batch)
  return declared
}

/** Checks entities with the engine. Some may name others that are not in the list. */
function check(entities: EntityJson[]): void {
  const answer = engine.run((cedar) => cedar.checkParseEntities({ entities }))
  if (answer.type === 'failure') throw invalid(answer.errors.map(({ message }) => message).join('; '))
}

/** The entities that a configuration declares, and the entities that each of them names. */
export class DeclaredEntities {
  readonly #byKey = new Map<string, EntityJson>()
  readonly #namedBy = new Map<string, readonly string[]>()
  readonly mentioned = new Set<string>()

  add(entity: EntityJson): void {
    const key = formatKey(entity.uid)
    const named = namedIn([entity.attrs, entity.parents, entity.tags])
    this.#byKey.set(key, entity)
    this.#namedBy.set(key, named)
    this.mentioned.add(key)
    for (const other of named) this.mentioned.add(other)
  }

  get(key: string): EntityJson | undefined {
    return this.#byKey.get(key)
  }

  /** Returns the entities that are reachable from some keys, including those keys if declared. */
  reachedFrom(keys: Iterable<string>, reached = new Map<string, EntityJson>()): Map<string, EntityJson> {
    const open = [...keys]
    for (let key = open.pop(); key !== undefined; key = open.pop()) {
      const entity = this.#byKey.get(key)
      if (entity === undefined || reached.has(key)) continue
      reached.set(key, entity)
      for (const other of this.#namedBy.get(key) ?? []) open.push(other)
    }
    return reached
  }
}

function namedIn(value: unknown): readonly string[] {
  const found: string[] = []
  const open = [value]
  while (open.length > 0) {
    const next = open.pop()
    if (!isObject(next) && !Array.isArray(next)) continue
    const { type, id } = next as Record<string, unknown>
    if (typeof type === 'string' && typeof id === 'string') found.push(entityKey(type, id))
    for (const inner of Object.values(next)) open.push(inner)
  }
  return found
}

const invalid = (message: string): PolicyError => new PolicyError([{ pointer: '/entitiesJson', message }])

function parseEntities(text: string): readonly EntityJson[] {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw invalid(`is not valid JSON: ${(error as Error).message}`)
  }
  if (!Array.isArray(value)) throw invalid('must be a JSON array of entities')
  if (value.length > MOST_ENTITIES) throw invalid(`has more than ${MOST_ENTITIES} entities`)
  if (isDeeperThan(value, DEEPEST)) throw invalid(`is nested deeper than ${DEEPEST}`)
  const entities = value as readonly EntityJson[]
  const misshapen = entities.findIndex((entity) => !isReadable(entity))
  if (misshapen >= 0)
    throw invalid(`entity ${misshapen + 1} must be an object whose uid and parents are objects of type and id`)
  const problem = ancestryProblem(entities)
  if (problem !== undefined) throw invalid(problem)
  return entities
}

/** Tells whether the names in an entity can be found: the engine also accepts lists instead of objects. */
const isReadable = ({ uid, parents }: EntityJson): boolean =>
  readUid(uid) !== undefined && Array.isArray(parents) && parents.every((parent) => readUid(parent) !== undefined)

function isDeeperThan(value: unknown, most: number): boolean {
  const open: (readonly [unknown, number])[] = [[value, 0]]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [node, depth] = next
    if (depth > most) return true
    if (typeof node === 'object' && node !== null)
      for (const inner of Object.values(node)) open.push([inner, depth + 1])
  }
  return false
}

interface Visit {
  readonly key: string
  readonly parents: readonly string[]
  readonly above: Set<string>
  next: number
}

/**
 * Returns why entities can't go to the engine: one is its own ancestor, or all have too many ancestors. The engine
 * lists all ancestors of each entity, so a chain costs the square of its length. The check takes limited time and
 * memory.
 */
function ancestryProblem(entities: readonly EntityJson[]): string | undefined {
  const parents = new Map<string, string[]>()
  for (const { uid, parents: direct } of entities) {
    const key = formatKey(uid)
    const known = parents.get(key)
    const added = (Array.isArray(direct) ? direct : []).map(formatKey)
    if (known === undefined) parents.set(key, added)
    else for (const parent of added) known.push(parent)
  }
  return new Walk(parents).problem()
}

/** Walks without recursion, since a chain may have any length. */
class Walk {
  readonly #parents: ReadonlyMap<string, readonly string[]>
  readonly #above = new Map<string, ReadonlySet<string>>()
  readonly #open: Visit[] = []
  readonly #isOpen = new Set<string>()
  #ancestors = 0
  #steps = 0

  constructor(parents: ReadonlyMap<string, readonly string[]>) {
    this.#parents = parents
  }

  problem(): string | undefined {
    for (const key of this.#parents.keys()) {
      const found = this.#above.has(key) ? undefined : this.#from(key)
      if (found !== undefined) return found
    }
    return undefined
  }

  #from(start: string): string | undefined {
    this.#enter(start)
    for (let visit = this.#open.at(-1); visit !== undefined; visit = this.#open.at(-1)) {
      const parent = visit.parents[visit.next]
      if (parent === undefined) this.#leave(visit)
      else if (this.#isOpen.has(parent)) return `has a cycle: ${parent} is among its own ancestors`
      else if (!this.#parents.has(parent)) this.#add(visit, parent, [])
      else {
        const above = this.#above.get(parent)
        if (above === undefined) this.#enter(parent)
        else this.#add(visit, parent, above)
      }
      if (this.#ancestors > MOST_ANCESTORS || this.#steps > MOST_STEPS)
        return `nests entities too often: more than ${MOST_ANCESTORS} pairs of an entity and one above it, or ${MOST_STEPS} ways to them; make the chains shorter`
    }
    return undefined
  }

  #enter(key: string): void {
    this.#isOpen.add(key)
    this.#open.push({ key, parents: this.#parents.get(key) ?? [], above: new Set(), next: 0 })
  }

  /** Adds a parent and its ancestors, and continues with the next parent. */
  #add(visit: Visit, parent: string, above: Iterable<string>): void {
    const { size } = visit.above
    visit.above.add(parent)
    this.#steps++
    for (const one of above) {
      visit.above.add(one)
      this.#steps++
    }
    this.#ancestors += visit.above.size - size
    visit.next++
  }

  #leave({ key, above }: Visit): void {
    this.#above.set(key, above)
    this.#isOpen.delete(key)
    this.#open.pop()
  }
}
