import {
  type Alias,
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
  type ScalarTag,
  type Tags,
  type YAMLMap,
} from 'yaml'
import { at, splitPointer } from '../../../crds/settings/json.ts'
import { kubectlScalar } from '../../../crds/settings/kubectl-scalar.ts'
import {
  aliasProblem,
  COLLECTION_KEY,
  duplicateKeys,
  findCollectionKey,
  withoutOrderedMaps,
} from '../../../dataplane/config/read/yaml.ts'

export interface ManifestDocument {
  readonly value: unknown
  /** Returns the line of the pointer's target, or of its nearest parent if the target doesn't exist. */
  findLine(pointer: string): number
  /** Explains how YAML has read an unquoted word: `no` is the boolean false. Undefined for any other pointer. */
  misreading(pointer: string): string | undefined
  /**
   * Returns the pointers of unquoted words such as `yes` and `off` that YAML reads as booleans, below a base: the empty
   * pointer, or `/items/N`.
   */
  wordsReadAsBooleans(base: string): readonly string[]
}

interface SyntaxFinding {
  readonly message: string
  readonly line: number
}

/** The deepest nesting of a document. The API server accepts far less in an object of ours. */
const DEEPEST = 200
/** The largest size of a document with its aliases expanded, in bytes. The API server accepts 1.5 MB of one object. */
const LARGEST = 16 * 1024 * 1024
const NODE = 8

const createScalarTag = (name: string, isOfType: (value: unknown) => boolean): ScalarTag => ({
  tag: `tag:yaml.org,2002:${name}`,
  default: true,
  identify: isOfType,
  test: { test: (text: string) => isOfType(kubectlScalar(text)) } as RegExp,
  resolve: kubectlScalar,
})
const scalarTags = [
  createScalarTag('null', (value) => value === null),
  createScalarTag('bool', (value) => typeof value === 'boolean'),
  createScalarTag('int', Number.isInteger),
  createScalarTag('float', (value) => typeof value === 'number'),
]
const REPLACED = new Set([...scalarTags.map(({ tag }) => tag), 'tag:yaml.org,2002:timestamp'])

const adaptTags = (tags: Tags): Tags => [
  ...withoutOrderedMaps(tags).filter((tag) => typeof tag === 'string' || !REPLACED.has(tag.tag)),
  ...scalarTags,
]

const readKey = (pair: Pair) => String(isScalar(pair.key) ? pair.key.value : pair.key)

interface NodePosition {
  readonly node: unknown
  readonly offset: number
  readonly exact: boolean
}

/** The results of earlier look-ups. An object may have as many findings as keys, and all of them behind one alias. */
interface Known {
  /** The pairs of maps, by key. */
  readonly pairs: WeakMap<YAMLMap, ReadonlyMap<string, Pair>>
  /** The nodes that aliases stand for. The library looks through the document for each. */
  readonly anchors: WeakMap<Alias, Node | undefined>
}

function resolve(document: Document, node: unknown, { anchors }: Known): unknown {
  if (!isAlias(node)) return node
  if (!anchors.has(node)) anchors.set(node, node.resolve(document))
  return anchors.get(node)
}

const findOffset = (node: unknown): number | undefined => (isNode(node) ? node.range?.[0] : undefined)

function findPair(map: YAMLMap, key: string, { pairs }: Known): Pair | undefined {
  const found = pairs.get(map) ?? new Map(map.items.map((pair) => [readKey(pair), pair]))
  pairs.set(map, found)
  return found.get(key)
}

/** Returns what a map or a list holds at one step of a pointer, and the key or item where it begins. */
function findPart(parent: unknown, step: string, known: Known): { node: unknown; from: unknown } | undefined {
  if (isMap(parent)) {
    const pair = findPair(parent, step, known)
    return pair && { node: pair.value, from: pair.key }
  }
  if (!isSeq(parent) || !(Number(step) < parent.items.length)) return undefined
  const item = parent.items[Number(step)]
  return { node: item, from: item }
}

function findPosition(document: Document, pointer: string, known: Known): NodePosition {
  let node: unknown = document.contents
  let offset = findOffset(node) ?? 0
  for (const token of splitPointer(pointer)) {
    const part = findPart(resolve(document, node, known), token, known)
    if (!part) return { node: undefined, offset, exact: false }
    offset = findOffset(part.from) ?? offset
    node = part.node
  }
  return { node, offset, exact: true }
}

const describeValue = (value: unknown) => (value === null ? 'null' : `the ${typeof value} ${String(value)}`)

function describeMisreading(node: unknown): string | undefined {
  if (!isScalar(node) || node.type !== 'PLAIN' || typeof node.value === 'string' || node.source === undefined) return
  const { source } = node
  if (source === '') return
  return `${source} without quotes is ${describeValue(node.value)} in YAML`
}

const isSurprisingBoolean = (node: unknown) =>
  isScalar(node) && typeof node.value === 'boolean' && !/^(true|false)$/i.test(node.source ?? 'true')

function findSurprisingBooleans(node: Node | null | undefined, pointer: string, found: string[]): void {
  if (isMap(node)) {
    for (const pair of node.items) {
      findSurprisingBooleans(pair.value as Node | null, at(pointer, readKey(pair)), found)
    }
  } else if (isSeq(node)) {
    node.items.forEach((item, index) => {
      findSurprisingBooleans(item as Node, `${pointer}/${index}`, found)
    })
  } else if (isSurprisingBoolean(node)) found.push(pointer)
}

/** The most syntax errors of one document that are reported. Errors after the first few follow from them. */
const MOST_ERRORS = 20
const MOST_ALIASES = 1000

/** Returns the errors to report. A document that overflows the parser's stack has one, not a random number. */
function selectErrors({ errors }: Document): Document['errors'] {
  const exhausted = errors.find(({ code }) => code === 'RESOURCE_EXHAUSTION')
  return exhausted === undefined ? errors.slice(0, MOST_ERRORS) : [exhausted]
}

/** Returns the first line of the parser's message, without its own position. */
const joinLines = (message: string) =>
  /call stack|stack overflow/i.test(message) ? 'nests too deeply' : readFirstLine(message)

const readFirstLine = (message: string) =>
  (message.split('\n')[0] ?? message).replace(/ at line \d+, column \d+:?$/, '')

interface DocumentError {
  readonly message: string
  readonly offset: number
}

/** Returns a document's value, or null if it is empty or has errors, and the errors. */
function readValue(document: Document.Parsed): { readonly value: unknown; readonly errors: readonly DocumentError[] } {
  const buildFailure = (errors: readonly DocumentError[]) => ({ value: null, errors })
  const start = document.range[0]
  if (document.errors.length > 0)
    return buildFailure(
      selectErrors(document).map(({ message, pos }) => ({ message: joinLines(message), offset: pos[0] })),
    )
  if (document.contents === null) return buildFailure([])
  const key = findCollectionKey(document)
  if (key !== undefined) return buildFailure([{ message: COLLECTION_KEY, offset: key }])
  const aliases = aliasProblem(document, MOST_ALIASES)
  if (aliases !== undefined) return buildFailure([{ message: aliases, offset: start }])
  let value: unknown
  try {
    value = document.toJS({ maxAliasCount: MOST_ALIASES })
  } catch (error) {
    return buildFailure([{ message: joinLines((error as Error).message), offset: start }])
  }
  if (value === null) return buildFailure([])
  const tooMuch = findExcess(value)
  if (tooMuch !== undefined) return buildFailure([{ message: tooMuch, offset: start }])
  const duplicates = duplicateKeys(document.contents).slice(0, MOST_ERRORS)
  if (duplicates.length > 0)
    return buildFailure(duplicates.map((offset) => ({ message: 'Map keys must be unique', offset })))
  return { value, errors: [] }
}

function readManifestDocument(
  document: Document.Parsed,
  value: unknown,
  lineAt: (offset: number) => number,
): ManifestDocument {
  const known: Known = { pairs: new WeakMap(), anchors: new WeakMap() }
  const words: string[] = []
  findSurprisingBooleans(document.contents, '', words)
  const byItem = Map.groupBy(words, (pointer) => /^\/items\/\d+(?=\/)/.exec(pointer)?.[0])
  return {
    value,
    findLine: (pointer) => lineAt(findPosition(document, pointer, known).offset),
    misreading: (pointer) => {
      const { node, exact } = findPosition(document, pointer, known)
      return exact ? describeMisreading(node) : undefined
    },
    wordsReadAsBooleans: (base) => (base === '' ? words : (byItem.get(base) ?? [])),
  }
}

/**
 * Parses a file's text into its documents, without empty ones and those with syntax errors; each error is a finding.
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
    customTags: adaptTags,
    lineCounter: counter,
    prettyErrors: false,
    logLevel: 'error',
    // The parser would compare each key with all before it; see duplicateKeys.
    uniqueKeys: false,
  })
  for (const document of 'empty' in parsed ? [] : parsed) {
    const { value, errors: found } = readValue(document)
    for (const { message, offset } of found) errors.push({ message, line: lineAt(offset) })
    if (found.length === 0 && value !== null) documents.push(readManifestDocument(document, value, lineAt))
  }
  return { documents, errors }
}

/** Tells which limit a value exceeds: its depth (infinite if it contains itself), or its size with aliases expanded. */
function findExcess(value: unknown): string | undefined {
  let bytes = 0
  const problem = (inner: unknown, depth: number): string | undefined => {
    bytes += NODE + (typeof inner === 'string' ? inner.length : 0)
    if (bytes > LARGEST) return `has more than ${LARGEST} bytes, its aliases written out`
    if (typeof inner !== 'object' || inner === null) return undefined
    if (depth === DEEPEST) return `nests deeper than ${DEEPEST} levels, or holds itself by an alias`
    for (const key of Object.keys(inner)) {
      bytes += key.length
      const found = problem((inner as Record<string, unknown>)[key], depth + 1)
      if (found !== undefined) return found
    }
    return undefined
  }
  return problem(value, 0)
}
