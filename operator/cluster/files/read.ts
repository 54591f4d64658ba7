import { readFileSync, statSync } from 'node:fs'
import { findKind, formatApiVersion, kinds, VERSION } from '../../../crds/index.ts'
import { closest } from '../../../crds/settings/closest.ts'
import { isObject } from '../../../crds/settings/json.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { type CoreObject, checkMetadata, isCoreKind, type ObjectFinding, readCoreObject } from './core.ts'
import { type ManifestDocument, parseDocuments } from './document.ts'
import { type FoundFiles, findFiles } from './find.ts'
import { formatObjectKey, type ManifestFinding, type ObjectId, type Severity } from './finding.ts'
import { agreeOnGroup, isGroup, type OwnGroup, parseGroup, parseVersion } from './group.ts'

export interface Manifest {
  readonly object: KubernetesObject
  readonly id: ObjectId
  readonly file: string
  /** Returns the line of a JSON pointer's target in the object, or of its nearest parent. */
  findLine(pointer: string): number
  /** Explains why a value may not be what its author meant: `no` without quotes is a boolean. */
  misreading(pointer: string): string | undefined
}

/** Builds a finding about a manifest. Without a pointer it is at the object's name. */
export const buildFinding = (
  manifest: Manifest,
  severity: Severity,
  reason: string,
  { message, pointer }: { readonly message: string; readonly pointer?: string | undefined },
): ManifestFinding => ({
  severity,
  reason,
  message,
  file: manifest.file,
  line: manifest.findLine(pointer ?? '/metadata/name'),
  ...(pointer ? { pointer } : {}),
  object: manifest.id,
})

export interface ManifestSet {
  readonly group: string
  /** The objects of our kinds in the order of the files, with namespace. They are not checked against their schema. */
  readonly manifests: readonly Manifest[]
  readonly secrets: readonly CoreObject[]
  readonly configMaps: readonly CoreObject[]
  /** Secrets and ConfigMaps that are left out because they are invalid. */
  readonly refused: readonly ObjectId[]
  readonly findings: readonly ManifestFinding[]
}

interface Candidate {
  readonly value: Record<string, unknown>
  readonly document: ManifestDocument
  /** The pointer of the object in its document: empty, or `/items/N` in a List. */
  readonly base: string
  readonly file: string
  readonly named: boolean
}

/** The largest file in bytes. A parsed file takes some forty times its size in memory. */
const LARGEST_FILE = 16 * 1024 * 1024

/** The longest message in characters. Names of any length may be in it. */
const LONGEST_MESSAGE = 1000
/** The longest name in a finding. No valid name is longer. */
const LONGEST_NAME = 300

const shorten = (text: string, length: number) => (text.length > length ? `${text.slice(0, length)}…` : text)

const isList = (value: Record<string, unknown>) =>
  typeof value['kind'] === 'string' && value['kind'].endsWith('List') && Array.isArray(value['items'])

/** Removes what `kubectl get -o yaml` adds, which has no meaning in a file. */
function withoutLiveFields(value: Record<string, unknown>, metadata: KubernetesObject['metadata']): KubernetesObject {
  const { status: _, ...desired } = value
  return { ...desired, metadata } as KubernetesObject
}

class Reading {
  readonly findings: ManifestFinding[] = []
  readonly candidates: Candidate[] = []
  readonly manifests: Manifest[] = []
  readonly refused: ObjectId[] = []
  readonly core = { Secret: [] as CoreObject[], ConfigMap: [] as CoreObject[] }
  readonly #places = new Map<string, string>()

  load(found: FoundFiles): void {
    for (const { path, reason } of found.missing) {
      this.findings.push({ severity: 'error', reason: 'FileMissing', message: reason, file: path, line: 1 })
    }
    for (const { path, named } of found.files) this.#loadFile(path, named)
    if (found.files.length === 0 && found.missing.length === 0) {
      const file = found.folders[0] ?? '.'
      const message = 'holds no *.yaml, *.yml or *.json'
      this.findings.push({ severity: 'error', reason: 'FolderEmpty', message, file, line: 1 })
    }
  }

  #loadFile(file: string, named: boolean): void {
    let content: string
    try {
      const { size } = statSync(file)
      if (size > LARGEST_FILE) throw new Error(`has ${size} bytes; at most ${LARGEST_FILE} are read`)
      content = new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file))
    } catch (error) {
      const isEncoding = error instanceof TypeError
      const message = isEncoding ? 'is not UTF-8 text' : (error as Error).message
      this.findings.push({ severity: 'error', reason: 'FileUnreadable', message, file, line: 1 })
      return
    }
    const { documents, errors } = parseDocuments(content)
    for (const { message, line } of errors) {
      this.findings.push({ severity: 'error', reason: 'SyntaxInvalid', message, file, line })
    }
    for (const document of documents) {
      const { value } = document
      if (!isObject(value)) {
        this.#add({ value: {}, document, base: '', file, named }, [
          { severity: 'error', reason: 'NotAnObject', message: 'must be an object', pointer: '' },
        ])
      } else if (isList(value)) {
        const items = value['items'] as unknown[]
        items.forEach((item, index) => {
          const base = `/items/${index}`
          if (isObject(item)) this.candidates.push({ value: item, document, base, file, named })
        })
      } else this.candidates.push({ value, document, base: '', file, named })
    }
  }

  #add(candidate: Candidate, findings: readonly ObjectFinding[], object?: ObjectId): void {
    for (const { severity, reason, message, pointer } of findings) {
      this.findings.push({
        severity,
        reason,
        message: shorten(message, LONGEST_MESSAGE),
        file: candidate.file,
        line: candidate.document.findLine(candidate.base + pointer),
        ...(pointer === '' ? {} : { pointer }),
        ...(object ? { object } : {}),
      })
    }
  }

  take(candidate: Candidate, group: OwnGroup): void {
    const what = classify(candidate.value, group, candidate.named)
    if (what.is === 'nothing') this.#add(candidate, [what.finding])
    else if (what.is === 'core') this.#takeCore(candidate, what.kind)
    else this.#takeManifest(candidate, what.kind)
  }

  #identify(candidate: Candidate, kind: string): ObjectId | undefined {
    const { metadata } = candidate.value
    const named = isObject(metadata) && typeof metadata['name'] === 'string' ? metadata['name'] : ''
    const namespace = (isObject(metadata) && metadata['namespace']) || 'default'
    const id = { kind, namespace: shorten(String(namespace), LONGEST_NAME), name: shorten(named, LONGEST_NAME) }
    const findings = checkMetadata(metadata, candidate.document, candidate.base)
    this.#add(candidate, findings, id)
    if (findings.length > 0) return
    const place = `${candidate.file}:${candidate.document.findLine(candidate.base)}`
    const before = this.#places.get(formatObjectKey(id))
    if (before) {
      const message = `${kind} ${id.namespace}/${id.name} is already in ${before}`
      this.#add(candidate, [{ severity: 'error', reason: 'Duplicate', message, pointer: '/metadata/name' }], id)
      return
    }
    this.#places.set(formatObjectKey(id), place)
    return id
  }

  #takeCore(candidate: Candidate, kind: 'Secret' | 'ConfigMap'): void {
    const id = this.#identify(candidate, kind)
    if (!id) return
    const { values, findings } = readCoreObject(kind, candidate.value)
    this.#add(candidate, findings, id)
    if (findings.length > 0) this.refused.push(id)
    else this.core[kind].push({ namespace: id.namespace, name: id.name, file: candidate.file, values })
  }

  #takeManifest(candidate: Candidate, kind: string): void {
    const id = this.#identify(candidate, kind)
    if (!id) return
    const { value, document, base, file } = candidate
    const { labels, annotations } = value['metadata'] as KubernetesObject['metadata']
    for (const pointer of document.wordsReadAsBooleans(base)) {
      const message = `${document.misreading(pointer)}; write true or false, or use quotes`
      this.#add(candidate, [
        { severity: 'warning', reason: 'WordReadAsBoolean', message, pointer: pointer.slice(base.length) },
      ])
    }
    this.manifests.push({
      object: withoutLiveFields(value, {
        name: id.name,
        namespace: id.namespace,
        ...(labels ? { labels } : {}),
        ...(annotations ? { annotations } : {}),
      }),
      id,
      file,
      findLine: (pointer) => document.findLine(base + pointer),
      misreading: (pointer) => document.misreading(base + pointer),
    })
  }
}

/**
 * Reads manifests as the API server would accept them, except for the schemas of our kinds. Problems are findings with
 * file and line. `group`: the API group of our kinds; absent, the one that they all carry.
 */
export function readManifests(paths: readonly string[], group?: string): ManifestSet {
  const found = findFiles(paths)
  const reading = new Reading()
  reading.load(found)
  const own = agreeOnGroup(
    reading.candidates.map(({ value }) => value),
    (kind) => findKind(kind) !== undefined,
    group,
  )
  for (const candidate of reading.candidates) reading.take(candidate, own)
  return {
    group: own.name,
    manifests: reading.manifests,
    secrets: reading.core.Secret,
    configMaps: reading.core.ConfigMap,
    refused: reading.refused,
    findings: reading.findings,
  }
}

type Classified =
  | { readonly is: 'manifest'; readonly kind: string }
  | { readonly is: 'core'; readonly kind: 'Secret' | 'ConfigMap' }
  | { readonly is: 'nothing'; readonly finding: ObjectFinding }

const nothing = (severity: 'error' | 'note', reason: string, pointer: string, message: string): Classified => ({
  is: 'nothing',
  finding: { severity, reason, message, pointer },
})

/**
 * Classifies an object by `apiVersion` and `kind`. `named`: the caller named its file, which was not just found in a
 * folder.
 */
function classify(object: Readonly<Record<string, unknown>>, group: OwnGroup, named: boolean): Classified {
  const { apiVersion, kind } = object
  if (apiVersion === undefined && kind === undefined) {
    const looksLikeOne = named || 'metadata' in object || 'spec' in object
    if (looksLikeOne) return nothing('error', 'NotAnObject', '', 'has neither apiVersion nor kind')
    return nothing('note', 'Ignored', '', 'is not a Kubernetes object and is ignored')
  }
  if (typeof apiVersion !== 'string') return nothing('error', 'ApiVersionInvalid', '/apiVersion', 'must be set')
  if (typeof kind !== 'string') return nothing('error', 'KindInvalid', '/kind', 'must be set')
  if (apiVersion === 'v1' && isCoreKind(kind)) return { is: 'core', kind }
  return parseGroup(apiVersion) === group.name
    ? classifyOwnGroup(apiVersion, kind, group)
    : classifyOtherGroup(apiVersion, kind, group)
}

function classifyOwnGroup(apiVersion: string, kind: string, { name }: OwnGroup): Classified {
  if (!findKind(kind)) {
    const meant = closest(kind, Object.keys(kinds))
    return nothing(
      'error',
      'KindUnknown',
      '/kind',
      `${name} has no kind ${kind}${meant ? `; did you mean ${meant}?` : ''}`,
    )
  }
  if (parseVersion(apiVersion) === VERSION) return { is: 'manifest', kind }
  return nothing(
    'error',
    'ApiVersionInvalid',
    '/apiVersion',
    `${apiVersion} is not served; use ${formatApiVersion(name)}`,
  )
}

function classifyOtherGroup(apiVersion: string, kind: string, group: OwnGroup): Classified {
  if (!findKind(kind)) return nothing('note', 'Ignored', '/kind', `${kind} (${apiVersion}) is not read: ignored`)
  const name = parseGroup(apiVersion)
  if (name !== '' && !isGroup(name))
    return nothing(
      'error',
      'ApiVersionInvalid',
      '/apiVersion',
      `must begin with a DNS name, as ${formatApiVersion(group.name)}`,
    )
  if (!group.chosen) return nothing('error', 'GroupsDiffer', '/apiVersion', `${apiVersion}: ${group.why}`)
  const expected = formatApiVersion(group.name)
  return nothing('note', 'Ignored', '/apiVersion', `${kind} of ${apiVersion}, not ${expected}: ignored`)
}
