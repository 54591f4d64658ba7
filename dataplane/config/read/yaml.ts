import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  type Tags,
  visit,
} from 'yaml'
import { ConfigError, type Finding } from '../load.ts'

/** A text as a YAML document, and the line (from 1) of each offset in it. */
export interface YamlText {
  readonly document: Document.Parsed
  lineAt(offset: number): number
}

/** The limit of errors: after the first few the rest follow from them. */
const MOST_ERRORS = 20
const MOST_ALIASES = 100

/** Removes ordered maps. The library compares each key of one with all before it, and nothing here needs the order. */
export const withoutOrderedMaps = (tags: Tags): Tags =>
  tags.filter((tag) => typeof tag === 'string' || !/:(omap|pairs)$/.test(tag.tag))

export const COLLECTION_KEY = 'a key must be text, not a map or a list'

/**
 * Returns the offset of the first key that is a map or a list, as in an unquoted `{{ template }}`. Such keys must not
 * reach `toJS`: it writes them out as text, and each level of nesting doubles the length.
 */
export function findCollectionKey(document: Document.Parsed): number | undefined {
  let found: number | undefined
  visit(document, {
    Pair(_, { key }) {
      if (!isCollection(key)) return undefined
      found = key.range?.[0] ?? 0
      return visit.BREAK
    },
  })
  return found
}

export function readYaml(text: string): YamlText {
  const lines = new LineCounter()
  const document = parseDocument(text, {
    lineCounter: lines,
    merge: true,
    prettyErrors: false,
    logLevel: 'error',
    customTags: withoutOrderedMaps,
    // The parser compares each key with all before it; see duplicateKeys.
    uniqueKeys: false,
  })
  return { document, lineAt: (offset) => lines.linePos(offset).line }
}

/** Returns the message of an error without the parser's advice to programmers. */
const formatError = ({ code, message }: Document.Parsed['errors'][number]): string =>
  code === 'MULTIPLE_DOCS' ? 'must be one YAML document; a second one begins here' : message

/** Returns the value of a YAML text. Throws a ConfigError if the text is no YAML, or empty. */
export function valueOfYaml({ document, lineAt }: YamlText, file?: string): unknown {
  const refuse = (findings: readonly Finding[]) =>
    new ConfigError(file === undefined ? findings : findings.map((finding) => ({ ...finding, file })))
  const whole = (message: string) => refuse([{ pointer: '', message }])
  const at = (offset: number, message: string): Finding => ({ pointer: '', message, line: lineAt(offset) })
  const exhausted = document.errors.find(({ code }) => code === 'RESOURCE_EXHAUSTION')
  if (exhausted !== undefined) throw refuse([at(exhausted.pos[0], 'nests too deeply')])
  if (document.errors.length > 0)
    throw refuse(document.errors.slice(0, MOST_ERRORS).map((error) => at(error.pos[0], formatError(error))))
  if (document.contents === null) throw whole('the file is empty')
  const key = findCollectionKey(document)
  if (key !== undefined) throw refuse([at(key, COLLECTION_KEY)])
  const aliases = aliasProblem(document, MOST_ALIASES)
  if (aliases !== undefined) throw whole(aliases)
  let value: unknown
  let repeated: readonly number[]
  try {
    value = document.toJS()
    repeated = duplicateKeys(document.contents)
  } catch (error) {
    // An alias expands without end, or refers to no anchor.
    throw whole((error as Error).message)
  }
  if (repeated.length === 0) return value
  throw refuse(repeated.slice(0, MOST_ERRORS).map((offset) => at(offset, 'Map keys must be unique')))
}

/** The limit of aliases times nodes: the library searches the whole document for anchors. */
const MOST_STEPS = 10_000_000

/** Returns why a document's aliases are not followed: too many for any document, or for one of its size. */
export function aliasProblem(document: Document.Parsed, most: number): string | undefined {
  let aliases = 0
  let nodes = 0
  visit(document, {
    Node(_, node) {
      nodes++
      if (isAlias(node)) aliases++
    },
  })
  if (aliases > most) return `has more than ${most} aliases`
  return aliases * nodes > MOST_STEPS ? 'has too many aliases for its size' : undefined
}

/** Returns the offsets of repeated keys in a YAML document of bounded nesting, in order. Linear time. */
export function duplicateKeys(node: unknown, found: number[] = []): readonly number[] {
  if (isSeq(node)) for (const item of node.items) duplicateKeys(item, found)
  if (!isMap(node)) return found
  const known = new Set<unknown>()
  for (const { key, value } of node.items) {
    const name = isScalar(key) ? key.value : key
    if (known.has(name) && isNode(key)) found.push(key.range?.[0] ?? 0)
    known.add(name)
    duplicateKeys(value, found)
  }
  return found
}
