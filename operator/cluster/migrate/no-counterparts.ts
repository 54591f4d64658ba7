import { kindNamed, unsupportedFields, validateObject } from '../../../crds/index.ts'
import { isObject } from '../../../crds/shared/json.ts'
import { type ManifestDocument, parseDocuments } from '../files/document.ts'
import { groupOf } from '../files/group.ts'
import type { MigrationFinding } from './finding.ts'

interface Found {
  readonly value: Record<string, unknown>
  readonly document: ManifestDocument
  readonly base: string
}

/** The objects of a document: itself, or the items of a List. */
function objectsOf(document: ManifestDocument): Found[] {
  const { value } = document
  if (!isObject(value)) return []
  const { items } = value
  if (!Array.isArray(items)) return [{ value, document, base: '' }]
  return items.flatMap((item, index) => (isObject(item) ? [{ value: item, document, base: `/items/${index}` }] : []))
}

function findingsOf({ value, document, base }: Found, group: string): MigrationFinding[] {
  const declaration = kindNamed(String(value['kind']))
  if (!declaration) return []
  const unsupported = unsupportedFields(declaration, { spec: value['spec'] }).map(({ pointer, reason }) => ({
    pointer,
    message: reason,
  }))
  return [...validateObject(value, group), ...unsupported].map(({ pointer, message }) => ({
    severity: 'error',
    line: document.lineOf(base + pointer),
    message: `${pointer || '/'}: has no counterpart: ${message}`,
  }))
}

/** What objects of our kinds in a text have that our schemas don't know, or that are refused. */
export function noCounterparts(text: string, group: string): { objects: number; findings: MigrationFinding[] } {
  const found = parseDocuments(text)
    .documents.flatMap(objectsOf)
    .filter(({ value }) => groupOf(String(value['apiVersion'])) === group && kindNamed(String(value['kind'])))
  return { objects: found.length, findings: found.flatMap((one) => findingsOf(one, group)) }
}
