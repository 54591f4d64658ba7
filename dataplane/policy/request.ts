import type { EntityJson, StatefulAuthorizationCall } from '@cedar-policy/cedar-wasm/nodejs'
import type { Compiled } from './compile.ts'
import type { DecisionInput } from './evaluate.ts'
import { entityKey, formatKey, type Reads } from './expressions.ts'
import type { Subject } from './source.ts'
import type { CedarValue } from './values.ts'

type Values = Readonly<Record<string, CedarValue>>

/** Builds the engine's request with only the values that policies read, because its time grows with the input. */
export function authorizationRequest(
  { principal: { id, groups, claims }, subject, given, server, groupEntityType }: DecisionInput,
  reads: Reads,
  compiled: Compiled,
): Omit<StatefulAuthorizationCall, 'preparsedPolicySetId'> {
  const principal = { type: 'Client', id: id.toWellFormed() }
  const resource = { type: subject.type, id: subject.id.toWellFormed() }
  const action = { type: 'Action', id: subject.action }
  const own = [
    {
      uid: principal,
      attrs: read(claims, reads.principal),
      parents: groups.map((group) => ({ type: groupEntityType, id: group })),
    },
    {
      uid: resource,
      attrs: { ...read(buildAttributes(subject), reads.resource), ...read(given, reads.resource) },
      parents: listParents(subject, server).filter(({ type, id: name }) =>
        compiled.mentioned.has(entityKey(type, name)),
      ),
    },
  ] as EntityJson[]
  return {
    principal,
    action,
    resource,
    context: { ...read(claims, reads.context), ...read(given, reads.context) } as StatefulAuthorizationCall['context'],
    entities: withDeclared(own, entityKey('Action', subject.action), compiled),
  }
}

function read(values: Values, names: ReadonlySet<string>): Values {
  const found: Record<string, CedarValue> = {}
  for (const name in values) if (names.has(name)) found[name] = values[name] as CedarValue
  return found
}

function listParents({ backend }: Subject, server: string) {
  const parents = [{ type: 'MCP', id: server }]
  return backend === undefined ? parents : [...parents, { type: 'Backend', id: backend }]
}

const FEATURES = { Tool: 'tool', Prompt: 'prompt', Resource: 'resource' } as const
const OPERATIONS = { call_tool: 'call', get_prompt: 'get', read_resource: 'read' } as const

export const buildAttributes = ({ action, type, id, backend, skill, hints }: Subject) => ({
  ...hints,
  name: id.toWellFormed(),
  ...(type === 'Resource' ? { uri: id.toWellFormed() } : {}),
  ...(backend === undefined ? {} : { backend }),
  ...(skill === undefined ? {} : { skill: skill.toWellFormed() }),
  feature: FEATURES[type],
  operation: OPERATIONS[action],
})

/**
 * Merges our entities with the configured ones that they reach. An entity in both has the parents of both, and our
 * attributes. Entities without data are left out.
 */
function withDeclared(own: readonly EntityJson[], action: string, compiled: Compiled): EntityJson[] {
  const { entities: declared, named } = compiled
  if (declared.mentioned.size === 0) return own.filter(isSaid)
  const starts = own.flatMap(({ uid, parents }) => [formatKey(uid), ...parents.map(formatKey)])
  const reached = declared.reachedFrom([action, ...named, ...starts])
  const merged = own.map((entity) => {
    const key = formatKey(entity.uid)
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

function isSaid({ attrs, parents }: EntityJson): boolean {
  return parents.length > 0 || Object.keys(attrs).length > 0
}
