import { isObject } from '../../crds/settings/json.ts'
import type { ListName } from './pinned.ts'

/**
 * Characters that a reviewer does not see and a model reads: controls, zero-width and bidirectional signs, fillers,
 * variation selectors, tags (U+E0000 to U+E007F), and Unicode's class of format characters.
 */
const HIDDEN =
  // biome-ignore lint/suspicious/noMisleadingCharacterClass: the marks are meant one by one
  /[\u0080-\u009f\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e01ef}]|\p{Cf}|\p{Cs}/gu

const readCode = (character: string): number => character.codePointAt(0) as number

const escapeCharacter = (character: string): string => `\\u{${readCode(character).toString(16)}}`

export const escapeHidden = (text: string): string => text.replace(HIDDEN, escapeCharacter)

export const hasHidden = (text: string): boolean => text.search(HIDDEN) >= 0

/** Returns the ASCII text that tag characters spell (U+E0000 plus ASCII); empty if there is none. */
export const decodeTags = (text: string): string =>
  [...text]
    .map(readCode)
    .filter((code) => code >= 0xe0020 && code < 0xe007f)
    .map((code) => String.fromCharCode(code - 0xe0000))
    .join('')

export const codePoints = (text: string): string =>
  [...text].map((character) => `U+${readCode(character).toString(16).toUpperCase().padStart(4, '0')}`).join(' ')

/** Puts an untrusted text on one line that a terminal shows as it is. */
export const makePrintable = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: controls are what is escaped
  escapeHidden(text).replace(/[\u0000-\u001f\u007f]/g, (one) => (one === '\n' ? '\\n' : escapeCharacter(one)))

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
function visitSchemas(top: unknown, visit: (schema: Readonly<Record<string, unknown>>) => void): void {
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
export function describeExternalReferences(list: ListName, text: string): string | undefined {
  if (list !== 'tools' || (!text.includes('Ref') && !text.includes('ref'))) return undefined
  const definition: unknown = JSON.parse(text)
  if (!isObject(definition)) return undefined
  const found = new Set<string>()
  for (const schema of [definition['inputSchema'], definition['outputSchema']]) {
    const own = new Set<string>([''])
    const references: string[] = []
    visitSchemas(schema, (one) => {
      for (const name of ['$id', 'id']) if (typeof one[name] === 'string') own.add(one[name].replace(/#.*$/s, ''))
      for (const [keyword, value] of Object.entries(one))
        if (REFERENCES.has(keyword) && typeof value === 'string') references.push(value)
    })
    for (const reference of references) if (!own.has(reference.replace(/#.*$/s, ''))) found.add(reference)
  }
  if (found.size === 0) return undefined
  const named = [...found].slice(0, MOST).map((one) => JSON.stringify(makePrintable(one)))
  const rest = found.size > MOST ? ` and ${found.size - MOST} more` : ''
  return `its schema refers to ${named.join(', ')}${rest}, which is not in the definition: no digest covers it`
}
