import { hash } from 'node:crypto'
import { isObject } from '../../../../crds/settings/json.ts'
import type { ClaimsMap } from '../../authz/claims.ts'
import type { IncomingVersion } from '../../catalog/entry.ts'
import type { Catalog } from '../format/catalog-reader.ts'
import { type Problem, readServer } from '../format/read-entry.ts'

export interface Exportable {
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly namespace: string
    readonly uid: string
    readonly annotations?: Readonly<Record<string, string>>
    readonly deletionTimestamp?: string
  }
  readonly spec?: { readonly transport?: string }
}

const SCHEMA = 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json'
const PUBLISHER_PROVIDED = 'io.modelcontextprotocol.registry/publisher-provided'
const DEFAULT_VERSION = '1.0.0'

/**
 * Returns the entries of a cluster: objects with the annotation `registry-export: "true"`. An object with invalid
 * annotations is left out as a problem: unreadable claims never count as no claims.
 */
export function exportedEntries(objects: readonly Exportable[], group: string): Catalog {
  const versions: IncomingVersion[] = []
  const problems: Problem[] = []
  const owners = new Map<string, string>()
  for (const object of objects) {
    if (!isExported(object, group)) continue
    const pointer = `/${object.kind}/${object.metadata.namespace}/${object.metadata.name}`
    const entry = buildEntry(object, group, pointer)
    if ('message' in entry) problems.push(entry)
    else if (owners.has(entry.name))
      problems.push({ pointer, message: `has the name of ${owners.get(entry.name)}, which keeps it` })
    else {
      owners.set(entry.name, pointer)
      versions.push(entry)
    }
  }
  return { versions, problems }
}

/** Tells whether an object asks to be listed and is not being deleted. */
export function isExported({ metadata }: Exportable, group: string): boolean {
  return metadata?.annotations?.[`${group}/registry-export`] === 'true' && metadata.deletionTimestamp === undefined
}

function buildEntry(object: Exportable, group: string, pointer: string): IncomingVersion | Problem {
  const { kind, metadata, spec } = object
  const { annotations = {}, namespace, name, uid } = metadata
  const annotation = (short: string) => annotations[`${group}/${short}`]
  const claims = parseClaims(annotation('authz-claims') ?? annotations['authz-claims'])
  if (claims === undefined) return { pointer, message: 'authz-claims must be a JSON object of strings' }
  const url = annotation('registry-url')
  if (url === undefined || !/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
    return { pointer, message: 'registry-url must be an http or https URL' }
  const description = annotation('registry-description')
  if (!description) return { pointer, message: 'registry-description is missing' }

  const publisher = group.split('.').reverse().join('.')
  const title = annotation('registry-title')
  const document = {
    $schema: SCHEMA,
    name: `${publisher}.k8s.${namespace}/${name}`,
    ...(title && { title }),
    description,
    version: annotation('registry-version') || DEFAULT_VERSION,
    remotes: [{ type: spec?.transport === 'sse' ? 'sse' : 'streamable-http', url }],
    _meta: {
      [PUBLISHER_PROVIDED]: { [publisher]: { [url]: { metadata: { kubernetes: { kind, namespace, name, uid } } } } },
    },
  }
  const entry = readServer(document, undefined, pointer)
  return 'message' in entry ? entry : { ...entry, claims }
}

function parseClaims(text: string | undefined): ClaimsMap | undefined {
  if (text === undefined) return {}
  try {
    const claims: unknown = JSON.parse(text)
    return isObject(claims) && Object.values(claims).every((value) => typeof value === 'string')
      ? (claims as ClaimsMap)
      : undefined
  } catch {
    return undefined
  }
}

/** Returns the hash of a content. It does not depend on the order in which the cluster lists it. */
export function hashCatalog({ versions, problems }: Catalog): string {
  return hash('sha256', JSON.stringify([versions, problems]), 'base64url')
}
