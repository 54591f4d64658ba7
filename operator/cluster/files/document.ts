import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseAllDocuments,
  type Tags,
} from 'yaml'

/** One YAML or JSON document of a file, with the place of everything in it. */
export interface ManifestDocument {
  readonly value: unknown
  /** Line of what the pointer names; of its nearest parent where it isn't there. */
  lineOf(pointer: string): number
  /**
   * What YAML made of an unquoted word, as an explanation: `no` is the boolean false. Undefined where the pointer
   * names no such scalar.
   */
  misreading(pointer: string): string | undefined
  /** Pointers of unquoted words such as `yes` and `off` that are read as booleans. */
  readonly wordsReadAsBooleans: readonly string[]
}

export interface SyntaxFinding {
  readonly message: string
  readonly line: number
}

/**
 * kubectl and the API server read manifests with sigs.k8s.io/yaml, that is YAML 1.1 as go-yaml 2 has it: `no` is false
 * and `010` is 8, but 1.1's base-60 numbers (`12:30`) and timestamps stay text.
 */
const tagsAsKubectlHasThem = (tags: Tags): Tags =>
  tags.filter(
    (tag) => typeof tag === 'string' || !(tag.tag.endsWith(':timestamp') || ('format' in tag && tag.format === 'TIME')),
  )

const unescapeStep = (token: string) => token.replaceAll('~1', '/').replaceAll('~0', '~')
export const escapePointer = (key: string): string => key.replaceAll('~', '~0').replaceAll('/', '~1')

const keyText = (pair: Pair) => String(isScalar(pair.key) ? pair.key.value : pair.key)

interface Place {
  readonly node: unknown
  /** Offset of the key, or of the item. */
  readonly offset: number
  readonly exact: boolean
}

function resolve(document: Document, node: unknown): unknown {
  return isAlias(node) ? node.resolve(document) : node
}

function placeOf(document: Document, pointer: string): Place {
  let node: unknown = document.contents
  let offset = isNode(node) ? (node.range?.[0] ?? 0) : 0
  for (const token of pointer.split('/').slice(1).map(unescapeStep)) {
    const parent = resolve(document, node)
    if (isMap(parent)) {
      const pair = parent.items.find((item) => keyText(item) === token)
      if (!pair) return { node: undefined, offset, exact: false }
      offset = isNode(pair.key) ? (pair.key.range?.[0] ?? offset) : offset
      node = pair.value
    } else if (isSeq(parent) && Number(token) < parent.items.length) {
      node = parent.items[Number(token)]
      offset = isNode(node) ? (node.range?.[0] ?? offset) : offset
    } else return { node: undefined, offset, exact: false }
  }
  return { node, offset, exact: true }
}

const kindOfValue = (value: unknown) => (value === null ? 'null' : `the ${typeof value} ${String(value)}`)

function misreadingOf(node: unknown): string | undefined {
  if (!isScalar(node) || node.type !== 'PLAIN' || typeof node.value === 'string' || node.source === undefined) return
  const { source } = node
  if (source === '') return
  return `${source} without quotes is ${kindOfValue(node.value)} in YAML`
}

const isSurprisingBoolean = (node: unknown) =>
  isScalar(node) && typeof node.value === 'boolean' && !/^(true|false)$/i.test(node.source ?? 'true')

function findSurprisingBooleans(node: Node | null | undefined, pointer: string, found: string[]): void {
  if (isMap(node)) {
    for (const pair of node.items) {
      findSurprisingBooleans(pair.value as Node | null, `${pointer}/${escapePointer(keyText(pair))}`, found)
    }
  } else if (isSeq(node)) {
    node.items.forEach((item, index) => {
      findSurprisingBooleans(item as Node, `${pointer}/${index}`, found)
    })
  } else if (isSurprisingBoolean(node)) found.push(pointer)
}

/** The first line of the parser's message, without its own account of the place. */
const oneLine = (message: string) => (message.split('\n')[0] ?? message).replace(/ at line \d+, column \d+:?$/, '')

/**
 * Parses a file's text into its documents. Empty documents are left out. A document with syntax errors is left out too
 * and gives one finding an error.
 */
export function parseDocuments(text: string): {
  readonly documents: readonly ManifestDocument[]
  readonly errors: readonly SyntaxFinding[]
} {
  const counter = new LineCounter()
  const lineAt = (offset: number) => counter.linePos(offset).line || 1
  const documents: ManifestDocument[] = []
  const errors: SyntaxFinding[] = []

  const parsed = parseAllDocuments(text, {
    version: '1.1',
    customTags: tagsAsKubectlHasThem,
    lineCounter: counter,
    prettyErrors: false,
  })
  for (const document of 'empty' in parsed ? [] : parsed) {
    for (const error of document.errors) errors.push({ message: oneLine(error.message), line: lineAt(error.pos[0]) })
    if (document.errors.length > 0 || document.contents === null) continue
    let value: unknown
    try {
      value = document.toJS({ maxAliasCount: 1000 })
    } catch (error) {
      errors.push({ message: oneLine((error as Error).message), line: lineAt(document.range[0]) })
      continue
    }
    if (value === null) continue
    const wordsReadAsBooleans: string[] = []
    findSurprisingBooleans(document.contents, '', wordsReadAsBooleans)
    documents.push({
      value,
      lineOf: (pointer) => lineAt(placeOf(document, pointer).offset),
      misreading: (pointer) => {
        const place = placeOf(document, pointer)
        return place.exact ? misreadingOf(place.node) : undefined
      },
      wordsReadAsBooleans,
    })
  }
  return { documents, errors }
}
