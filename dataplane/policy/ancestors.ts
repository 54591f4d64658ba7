import type { EntityJson } from '@cedar-policy/cedar-wasm/nodejs'
import { isObject } from '../../crds/shared/json.ts'
import { entityKey } from './expressions.ts'

/** Pairs of an entity and one above it. The engine takes about a microsecond and 120 bytes for each. */
const MOST_ANCESTORS = 100_000
/** Parents times what is above each of them: the steps to find all those pairs. */
const MOST_STEPS = 1_000_000

/** The type and id of an entity as an object of texts, which is how documents of Cedar write it; undefined for anything else. */
export function uidOf(uid: unknown): { readonly type: string; readonly id: string } | undefined {
  const named = isObject(uid) && '__entity' in uid ? uid['__entity'] : uid
  if (!isObject(named)) return undefined
  const { type, id } = named
  return typeof type === 'string' && typeof id === 'string' ? { type, id } : undefined
}

/** One entity in the walk from an entity to all above it. */
interface Visit {
  readonly key: string
  readonly parents: readonly string[]
  readonly above: Set<string>
  next: number
}

/**
 * Says why the engine is not asked about entities: one of them is above itself, or more stands above them all together
 * than the engine can work out in a moment. It makes a list of everything above each entity, so a chain of entities costs
 * the square of its length. Takes time and memory within the bounds, whatever the entities are.
 */
export function ancestryProblem(entities: readonly EntityJson[]): string | undefined {
  const parents = new Map<string, string[]>()
  for (const { uid, parents: direct } of entities) {
    const key = keyOf(uid)
    const known = parents.get(key)
    const added = (Array.isArray(direct) ? direct : []).map(keyOf)
    if (known === undefined) parents.set(key, added)
    else for (const parent of added) known.push(parent)
  }
  return new Walk(parents).problem()
}

const keyOf = (uid: unknown): string => {
  const { type, id } = uidOf(uid) ?? {}
  return entityKey(type, id)
}

/** Walks without recursion: a chain may be as long as its writer likes. */
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
      else if (this.#isOpen.has(parent)) return `has a cycle: ${parent} is above itself`
      else if (!this.#parents.has(parent)) this.#add(visit, parent, [])
      else {
        const above = this.#above.get(parent)
        if (above === undefined) this.#enter(parent)
        else this.#add(visit, parent, above)
      }
      if (this.#ancestors > MOST_ANCESTORS || this.#steps > MOST_STEPS)
        return `puts entities into each other too often: more than ${MOST_ANCESTORS} pairs of an entity and one above it, or ${MOST_STEPS} ways to them; make the chains shorter`
    }
    return undefined
  }

  #enter(key: string): void {
    this.#isOpen.add(key)
    this.#open.push({ key, parents: this.#parents.get(key) ?? [], above: new Set(), next: 0 })
  }

  /** Adds a parent and all above it; goes on to the next one. */
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
