import { at, isObject } from '../../../crds/settings/json.ts'
import type { ManifestDocument } from './document.ts'
import type { ManifestFinding } from './finding.ts'

export type ObjectFinding = Required<Pick<ManifestFinding, 'severity' | 'reason' | 'message' | 'pointer'>>

const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'
/** RFC 1123 as the API server requires it in `metadata.name` of custom resources, and in `metadata.namespace`. */
const subdomain = new RegExp(`^${label}(\\.${label})*$`)
const dnsLabel = new RegExp(`^${label}$`)

const createError = (reason: string, pointer: string, message: string): ObjectFinding => ({
  severity: 'error',
  reason,
  message,
  pointer,
})

/**
 * Checks what the API server checks before any schema: name, namespace, and labels and annotations with string values.
 */
export function checkMetadata(
  metadata: unknown,
  document: Pick<ManifestDocument, 'misreading'>,
  base: string,
): ObjectFinding[] {
  if (!isObject(metadata) || isMissing(metadata['name']) || metadata['name'] === '') {
    const generated = isObject(metadata) && metadata['generateName'] !== undefined
    const message = generated ? 'must be set; generateName has no meaning in a file' : 'must be set'
    return [createError('NameMissing', '/metadata/name', message)]
  }
  const explain = (pointer: string, message: string) => {
    const misreading = document.misreading(base + pointer)
    return misreading ? `${message} (${misreading})` : message
  }
  return [
    ...checkName(metadata['name'], explain),
    ...checkNamespace(metadata['namespace'], explain),
    ...mapFindings('labels', metadata['labels'], explain),
    ...mapFindings('annotations', metadata['annotations'], explain),
  ]
}

/** Adds to a message how YAML has read the value at the pointer, if its author may have meant something else. */
type Explained = (pointer: string, message: string) => string

const isMissing = (value: unknown): boolean => value === undefined || value === null

function checkName(name: unknown, explained: Explained): ObjectFinding[] {
  const pointer = '/metadata/name'
  if (typeof name !== 'string') return [createError('NameInvalid', pointer, explained(pointer, 'must be a string'))]
  if (name.length <= 253 && subdomain.test(name)) return []
  return [createError('NameInvalid', pointer, `"${name}" must be lowercase letters, digits, "-" and ".", at most 253`)]
}

function checkNamespace(namespace: unknown, explained: Explained): ObjectFinding[] {
  if (isMissing(namespace)) return []
  if (typeof namespace === 'string' && namespace.length <= 63 && dnsLabel.test(namespace)) return []
  const message = `${JSON.stringify(namespace)} must be lowercase letters, digits and "-", at most 63`
  return [createError('NamespaceInvalid', '/metadata/namespace', explained('/metadata/namespace', message))]
}

function mapFindings(field: 'labels' | 'annotations', map: unknown, explained: Explained): ObjectFinding[] {
  if (isMissing(map)) return []
  if (!isObject(map)) return [createError('MetadataInvalid', `/metadata/${field}`, 'must be a map of strings')]
  return Object.entries(map)
    .filter(([, value]) => typeof value !== 'string')
    .map(([key]) => {
      const pointer = at(`/metadata/${field}`, key)
      return createError('MetadataInvalid', pointer, explained(pointer, 'must be a string'))
    })
}

/** A Secret or ConfigMap with its values as bytes. Values of Secrets must not reach any output. */
export interface CoreObject {
  readonly namespace: string
  readonly name: string
  readonly file: string
  readonly values: ReadonlyMap<string, Buffer>
}

const base64 = /^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
/** The rule of the API server: a file name that leads nowhere else. */
const keyName = /^(?!\.\.?$|\.\.)[-._a-zA-Z0-9]{1,253}$/

type Decode = (value: string) => Buffer | undefined
const decodeText: Decode = (value) => Buffer.from(value)
const decodeBase64: Decode = (value) => {
  const packed = value.replaceAll(/\s/g, '')
  return base64.test(packed) ? Buffer.from(packed, 'base64') : undefined
}

/** Fields in ascending priority: the last one that sets a key wins. */
const FIELDS: Record<string, readonly (readonly [string, Decode])[]> = {
  Secret: [
    ['data', decodeBase64],
    ['stringData', decodeText],
  ],
  ConfigMap: [
    ['data', decodeText],
    ['binaryData', decodeBase64],
  ],
}

export const isCoreKind = (kind: string): kind is 'Secret' | 'ConfigMap' => Object.hasOwn(FIELDS, kind)

/** Reads the values of a Secret or ConfigMap. A finding never shows a value. */
export function readCoreObject(kind: 'Secret' | 'ConfigMap', object: Record<string, unknown>) {
  const findings: ObjectFinding[] = []
  const values = new Map<string, Buffer>()
  const refuse = (pointer: string, message: string) =>
    findings.push({ severity: 'error', reason: `${kind}Invalid`, message, pointer })

  for (const [field, decode] of FIELDS[kind] ?? []) {
    const map = object[field]
    if (map === undefined || map === null) continue
    if (!isObject(map)) {
      refuse(`/${field}`, 'must be a map of strings')
      continue
    }
    for (const [key, value] of Object.entries(map)) {
      const read = readValue(kind, key, value, decode)
      if (typeof read === 'string') refuse(at(`/${field}`, key), read)
      else values.set(key, read)
    }
  }
  return { values, findings }
}

/** Returns the bytes under a key, or what is wrong with it. */
function readValue(kind: string, key: string, value: unknown, decode: Decode): Buffer | string {
  if (!keyName.test(key)) return 'a key must be letters, digits, "-", "_" and ".", at most 253'
  if (typeof value !== 'string') return 'must be a string; put the value in quotes'
  const hint = kind === 'Secret' ? 'must be base64; plain text goes into stringData' : 'must be base64'
  return decode(value) ?? hint
}
