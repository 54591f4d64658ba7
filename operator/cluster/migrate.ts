import {
  type Document,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseAllDocuments,
  type Scalar,
  visit,
} from 'yaml'
import { findKind, unsupportedFields, VERSION, validateObject } from '../../crds/index.ts'
import { isObject } from '../../crds/settings/json.ts'
import type { KubernetesObject } from '../model/view.ts'
import { type ManifestDocument, parseDocuments } from './files/document.ts'
import { parseGroup } from './files/group.ts'
import { type ApiServer, listAll } from './kubernetes/api-server.ts'

interface Migration {
  readonly text: string
  /** The number of objects of our kinds whose group has changed. */
  readonly objects: number
  readonly findings: readonly MigrationFinding[]
}

export interface Groups {
  readonly from: string
  readonly to: string
}

/** Names of annotations that are read under any group. */
const OWN_ANNOTATIONS = ['local-command', 'local-path', 'local-port']
const GROUP_FIELDS = new Set(['group', 'apiGroup'])

interface Replacement {
  readonly node: Scalar
  readonly before: string
  readonly after: string
}

/** The replacement of a scalar that names the group, or a text that says why it stays. */
type Change = Omit<Replacement, 'node'> | string

interface Found {
  readonly value: Record<string, unknown>
  readonly document: ManifestDocument
  readonly base: string
}

/** A finding about a migrated text: `error` has no counterpart, `note` was left as it is. */
interface MigrationFinding {
  readonly severity: 'error' | 'note'
  readonly line: number
  readonly message: string
}

const readKey = (pair: unknown) => (isPair(pair) && isScalar(pair.key) ? String(pair.key.value) : '')
const findNearestPair = (path: readonly unknown[], back = 0): unknown => path.filter((one) => isPair(one)).at(-1 - back)

function planApiVersion(value: string, parent: unknown, { from, to }: Groups): Change {
  if (parseGroup(value) !== from) return 'names the group and is left as it is'
  const kind = isMap(parent) ? String(parent.get('kind') ?? '') : ''
  return findKind(kind)
    ? { before: value, after: `${to}/${VERSION}` }
    : `${kind || 'an object without kind'} of ${value} has no counterpart and is left as it is`
}

function planKey(value: string, holder: string, { from, to }: Groups): Change {
  const name = value.slice(from.length + 1)
  if (value === `${from}/${name}` && holder === 'annotations' && OWN_ANNOTATIONS.includes(name))
    return { before: value, after: `${to}/${name}` }
  return `${value} has no counterpart and is left as it is`
}

function planChange(node: Scalar, role: unknown, path: readonly unknown[], groups: Groups): Change {
  const value = String(node.value)
  if (role === 'key') return planKey(value, readKey(findNearestPair(path, 1)), groups)
  const field = readKey(findNearestPair(path))
  const parent = path.at(-1)
  if (field === 'apiVersion' && isPair(parent)) return planApiVersion(value, path.at(-2), groups)
  const isGroupField = isSeq(parent) ? field === 'apiGroups' : GROUP_FIELDS.has(field)
  return isGroupField && value === groups.from
    ? { before: groups.from, after: groups.to }
    : 'names the group and is left as it is'
}

const isDefinition = ({ contents }: Document) =>
  isMap(contents) && contents.get('kind') === 'CustomResourceDefinition' && contents.has('spec')

class TextMigration {
  readonly findings: MigrationFinding[] = []
  readonly replacements: Replacement[] = []
  readonly #lines: LineCounter
  readonly #groups: Groups

  constructor(lines: LineCounter, groups: Groups) {
    this.#lines = lines
    this.#groups = groups
  }

  say(severity: MigrationFinding['severity'], node: Node | null, message: string): void {
    this.findings.push({ severity, line: this.#lines.linePos(node?.range?.[0] ?? 0).line, message })
  }

  take(document: Document): void {
    if (isDefinition(document) && String(document).includes(this.#groups.from)) {
      this.say(
        'note',
        document.contents as Node,
        'a CustomResourceDefinition is not migrated: `portico crds` prints those of Portico',
      )
      return
    }
    visit(document, {
      Scalar: (role, node, path) => {
        if (typeof node.value !== 'string' || !node.value.includes(this.#groups.from)) return
        const change = planChange(node, role, path as readonly (Node | Pair)[], this.#groups)
        if (typeof change === 'string') this.say(/no counterpart/.test(change) ? 'error' : 'note', node, change)
        else this.replacements.push({ node, ...change })
      },
    })
  }
}

/** Inserts replacements into the text. The rest stays byte for byte: comments, quotes and order. */
function applyEdits(text: string, migration: TextMigration): string {
  let result = ''
  let end = 0
  for (const { node, before, after } of migration.replacements) {
    const [from = 0, to = 0] = node.range ?? []
    const source = text.slice(from, to)
    if (!source.includes(before)) {
      migration.say('error', node, `${before} is written in a form that is left as it is`)
      continue
    }
    result += text.slice(end, from) + source.replace(before, () => after)
    end = to
  }
  return result + text.slice(end)
}

/**
 * Moves our kinds in a text of YAML or JSON to another API group, and everything that names the group. Everything else
 * stays byte for byte; parts without a counterpart are reported.
 */
export function migrateText(text: string, groups: Groups): Migration {
  const lines = new LineCounter()
  const documents = parseAllDocuments(text, { lineCounter: lines, strict: false, uniqueKeys: false })
  const migration = new TextMigration(lines, groups)
  if ('empty' in documents) return { text, objects: 0, findings: [] }
  for (const document of documents) {
    const [error] = document.errors
    if (error) {
      const { line = 1 } = error.linePos?.[0] ?? {}
      return { text, objects: 0, findings: [{ severity: 'error', line, message: `is not YAML: ${error.code}` }] }
    }
    migration.take(document)
  }
  const migrated = applyEdits(text, migration)
  const { objects, findings } = reportNoCounterparts(migrated, groups.to)
  const isNew = objects > 0 && migrated !== text
  return {
    text: migrated,
    objects: isNew ? objects : 0,
    findings: [...migration.findings, ...(isNew ? findings : [])].sort((one, other) => one.line - other.line),
  }
}

function findObjects(document: ManifestDocument): Found[] {
  const { value } = document
  if (!isObject(value)) return []
  const { items } = value
  if (!Array.isArray(items)) return [{ value, document, base: '' }]
  return items.flatMap((item, index) => (isObject(item) ? [{ value: item, document, base: `/items/${index}` }] : []))
}

function findProblems({ value, document, base }: Found, group: string): MigrationFinding[] {
  const declaration = findKind(String(value['kind']))
  if (!declaration) return []
  const unsupported = unsupportedFields(declaration, { spec: value['spec'] }).map(({ pointer, reason }) => ({
    pointer,
    message: reason,
  }))
  return [...validateObject(value, group), ...unsupported].map(({ pointer, message }) => ({
    severity: 'error',
    line: document.findLine(base + pointer),
    message: `${pointer || '/'}: has no counterpart: ${message}`,
  }))
}

/** Finds parts of objects of our kinds that our schemas don't know or that are refused. */
function reportNoCounterparts(text: string, group: string): { objects: number; findings: MigrationFinding[] } {
  const found = parseDocuments(text)
    .documents.flatMap(findObjects)
    .filter(({ value }) => parseGroup(String(value['apiVersion'])) === group && findKind(String(value['kind'])))
  return { objects: found.length, findings: found.flatMap((one) => findProblems(one, group)) }
}

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration'

interface ResourceList {
  readonly resources: readonly { readonly name: string; readonly kind: string }[]
}

/** Returns what the author of a live object wrote. */
function reduceToAuthored({ apiVersion, kind, metadata, spec }: KubernetesObject): KubernetesObject {
  const { name, namespace, labels, annotations: { [LAST_APPLIED]: _, ...annotations } = {} } = metadata
  return {
    apiVersion,
    kind,
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(labels && { labels }),
      ...(Object.keys(annotations).length > 0 && { annotations }),
    },
    ...(spec !== undefined && { spec }),
  } as KubernetesObject
}

/**
 * Lists every object of an API group as manifests, including kinds that Portico lacks; `namespace` limits it. Throws an
 * ApiError.
 */
export async function fetchLiveObjects(api: ApiServer, group: string, namespace?: string): Promise<KubernetesObject[]> {
  const discovered = await api.request<{ preferredVersion: { version: string } }>('GET', `/apis/${group}`)
  const { version } = discovered.preferredVersion
  const { resources } = await api.request<ResourceList>('GET', `/apis/${group}/${version}`)
  const objects: KubernetesObject[] = []
  for (const { name: plural, kind } of resources) {
    if (plural.includes('/')) continue
    const found = await listAll(api, { group, version, plural, kind }, { namespace })
    objects.push(...found.map(reduceToAuthored))
  }
  // Configs come before the objects that refer to them, so that nothing waits if they are applied in this order.
  const rank = ({ kind }: KubernetesObject) => (findKind(kind)?.role === 'workload' ? 1 : 0)
  return objects.sort((one, other) => rank(one) - rank(other))
}
