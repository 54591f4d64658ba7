import { at, isObject } from '../../../crds/shared/json.ts'
import type { ManifestDocument } from './document.ts'
import type { Severity } from './finding.ts'

/** A finding before it has a file: pointers are relative to the object. */
export interface ObjectFinding {
  readonly severity: Severity
  readonly reason: string
  readonly message: string
  readonly pointer: string
}

const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'
/** RFC 1123 as the API server asks for it in `metadata.name` of custom resources, and in `metadata.namespace`. */
const subdomain = new RegExp(`^${label}(\\.${label})*$`)
const dnsLabel = new RegExp(`^${label}$`)

/**
 * Checks what the API server checks before any schema: a name, a namespace, labels and annotations whose values are
 * strings.
 */
export function checkMetadata(metadata: unknown, document: Pick<ManifestDocument, 'misreading'>, base: string) {
  const findings: ObjectFinding[] = []
  const refuse = (reason: string, pointer: string, message: string) =>
    findings.push({ severity: 'error', reason, message, pointer })
  const explained = (pointer: string, message: string) => {
    const misreading = document.misreading(base + pointer)
    return misreading ? `${message} (${misreading})` : message
  }

  if (!isObject(metadata) || metadata['name'] === undefined || metadata['name'] === null || metadata['name'] === '') {
    const generated = isObject(metadata) && metadata['generateName'] !== undefined
    refuse(
      'NameMissing',
      '/metadata/name',
      generated ? 'must be set; generateName has no meaning in a file' : 'must be set',
    )
    return findings
  }
  const { name, namespace } = metadata
  if (typeof name !== 'string') refuse('NameInvalid', '/metadata/name', explained('/metadata/name', 'must be a string'))
  else if (name.length > 253 || !subdomain.test(name)) {
    refuse('NameInvalid', '/metadata/name', `"${name}" must be lowercase letters, digits, "-" and ".", at most 253`)
  }
  if (namespace !== undefined && namespace !== null) {
    if (typeof namespace !== 'string' || namespace.length > 63 || !dnsLabel.test(namespace)) {
      const message = `${JSON.stringify(namespace)} must be lowercase letters, digits and "-", at most 63`
      refuse('NamespaceInvalid', '/metadata/namespace', explained('/metadata/namespace', message))
    }
  }
  for (const field of ['labels', 'annotations']) {
    const map = metadata[field]
    if (map === undefined || map === null) continue
    if (!isObject(map)) refuse('MetadataInvalid', `/metadata/${field}`, 'must be a map of strings')
    else {
      for (const [key, value] of Object.entries(map)) {
        const pointer = at(`/metadata/${field}`, key)
        if (typeof value !== 'string') refuse('MetadataInvalid', pointer, explained(pointer, 'must be a string'))
      }
    }
  }
  return findings
}
