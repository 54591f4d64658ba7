import type { PolicyJson } from '@cedar-policy/cedar-wasm/nodejs'
import { isObject } from '../../crds/settings/json.ts'

/** The variables with attributes that a policy can read. */
const variables = ['principal', 'resource', 'context'] as const
type Variable = (typeof variables)[number]

/** Names of the attributes that are read or tested with `has`, by variable. */
export type Reads = Readonly<Record<Variable, ReadonlySet<string>>>

/** The reads of a policy, found in its JSON form. */
export interface Mentions {
  readonly reads: Readonly<Record<Variable, Set<string>>>
  readonly entities: Set<string>
  /** Tells whether `context` is used as a whole, so that its read members are unknown. */
  usesWholeContext: boolean
  longestPattern: number
  depth: number
}

/** The most levels of the JSON form, two for an operator. The engine's evaluator overflows at twice as many. */
export const DEEPEST = 200

export const entityKey = (type: unknown, id: unknown): string => `${type}::${JSON.stringify(id)}`

/** Returns the type and id of an entity, in the form of Cedar documents; undefined for anything else. */
export function readUid(uid: unknown): { readonly type: string; readonly id: string } | undefined {
  const named = isObject(uid) && '__entity' in uid ? uid['__entity'] : uid
  if (!isObject(named)) return undefined
  const { type, id } = named
  return typeof type === 'string' && typeof id === 'string' ? { type, id } : undefined
}

export const formatKey = (uid: unknown): string => {
  const { type, id } = readUid(uid) ?? {}
  return entityKey(type, id)
}

const newMentions = (): Mentions => ({
  reads: { principal: new Set(), resource: new Set(), context: new Set() },
  entities: new Set(),
  usesWholeContext: false,
  longestPattern: 0,
  depth: 0,
})

/** Walks without recursion, since a policy may have any depth. */
export function findMentions(policy: PolicyJson): Mentions {
  const found = newMentions()
  const { principal, action, resource, conditions } = policy
  const open: (readonly [node: unknown, depth: number, isRead: boolean])[] = [
    [[principal, action, resource], 0, false],
    ...conditions.map(({ body }) => [body, 1, false] as const),
  ]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [node, depth, isRead] = next
    found.depth = Math.max(found.depth, depth)
    if (Array.isArray(node)) for (const item of node) open.push([item, depth + 1, false])
    else if (isObject(node)) for (const child of visit(node, isRead, found)) open.push([child[0], depth + 1, child[1]])
  }
  return found
}

type Child = readonly [node: unknown, isRead: boolean]

/** Records the reads of one node and returns its children. `isRead`: an attribute of the node is read. */
function visit(node: Readonly<Record<string, unknown>>, isRead: boolean, found: Mentions): readonly Child[] {
  const { type, id } = node
  if (typeof type === 'string' && typeof id === 'string') {
    found.entities.add(entityKey(type, id))
    return []
  }
  if (node['Var'] === 'context' && !isRead) found.usesWholeContext = true
  return Object.entries(node).map(([operator, operand]): Child => {
    if ((operator === '.' || operator === 'has') && isObject(operand)) {
      const names = [operand['attr']].flat().filter((name) => typeof name === 'string')
      for (const variable of findVariables(operand['left'], names))
        for (const name of names) found.reads[variable].add(name)
      return [operand['left'], true]
    }
    if (operator === 'like' && isObject(operand)) {
      // An element is a wildcard or a character.
      found.longestPattern = Math.max(found.longestPattern, (operand['pattern'] as readonly unknown[]).length)
      return [operand['left'], false]
    }
    return [operand, false]
  })
}

/** Returns the variables that may have these attributes. */
function findVariables(left: unknown, names: readonly string[]): readonly Variable[] {
  const variable = isObject(left) && names.length === 1 ? variables.find((one) => one === left['Var']) : undefined
  return variable === undefined ? variables : [variable]
}

export const joinReads = (all: readonly Mentions[]): Reads => {
  const joinReads = (variable: Variable) => new Set(all.flatMap(({ reads }) => [...reads[variable]]))
  return { principal: joinReads('principal'), resource: joinReads('resource'), context: joinReads('context') }
}
