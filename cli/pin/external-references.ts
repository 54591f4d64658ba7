import { isObject } from '../../crds/settings/json.ts'
import { shown as printable } from './hidden.ts'
import type { ListName } from './pinned.ts'

const REFERENCES: ReadonlySet<string> = new Set(['$ref', '$dynamicRef', '$recursiveRef'])
/** Keywords whose values are data, in which nothing refers to a schema. */
const DATA: ReadonlySet<string> = new Set(['default', 'const', 'enum', 'examples', 'example'])
/** Keywords whose members are named by the server, each with a schema. */
const NAMED: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
  'dependencies',
])
const MOST = 5

/** Calls `visit` with each schema in a schema, itself included. */
function eachSchema(top: unknown, visit: (schema: Readonly<Record<string, unknown>>) => void): void {
  const open: unknown[] = [top]
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (Array.isArray(value)) open.push(...value)
    if (!isObject(value)) continue
    visit(value)
    for (const [keyword, inner] of Object.entries(value)) {
      if (DATA.has(keyword)) continue
      if (NAMED.has(keyword) && isObject(inner)) open.push(...Object.values(inner))
      else open.push(inner)
    }
  }
}

/**
 * Finds references of a tool's schemas to anything outside the definition, which its owner can change after the
 * approval. `text`: the definition as JSON. Returns a text for people.
 */
export function externalReferences(list: ListName, text: string): string | undefined {
  if (list !== 'tools' || (!text.includes('Ref') && !text.includes('ref'))) return undefined
  const definition: unknown = JSON.parse(text)
  if (!isObject(definition)) return undefined
  const found = new Set<string>()
  for (const schema of [definition['inputSchema'], definition['outputSchema']]) {
    const own = new Set<string>([''])
    const references: string[] = []
    eachSchema(schema, (one) => {
      for (const name of ['$id', 'id']) if (typeof one[name] === 'string') own.add(one[name].replace(/#.*$/s, ''))
      for (const [keyword, value] of Object.entries(one))
        if (REFERENCES.has(keyword) && typeof value === 'string') references.push(value)
    })
    for (const reference of references) if (!own.has(reference.replace(/#.*$/s, ''))) found.add(reference)
  }
  if (found.size === 0) return undefined
  const named = [...found].slice(0, MOST).map((one) => JSON.stringify(printable(one)))
  const rest = found.size > MOST ? ` and ${found.size - MOST} more` : ''
  return `its schema refers to ${named.join(', ')}${rest}, which is not in the definition: no digest covers it`
}
