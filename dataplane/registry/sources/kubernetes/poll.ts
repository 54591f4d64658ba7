import { hash } from 'node:crypto'
import { isObject } from '../../../../crds/settings/json.ts'
import type { ClaimsMap } from '../../../identity/claims.ts'
import { type IncomingVersion, PUBLISHER_PROVIDED } from '../../catalog/entry.ts'
import { createBudget } from '../format/budget.ts'
import type { Catalog } from '../format/catalog-reader.ts'
import { type Problem, readServer } from '../format/read-entry.ts'
import type { LocationOf, Pass, ReadChange } from '../format/source.ts'
import { SourceError } from '../format/source-error.ts'
import { EXPORTED_KINDS, type Exportable, listObjects, openCluster } from './cluster.ts'

/** The most bytes of exported objects that are kept until all have come. */
const MOST_KEPT = 32 * 1024 * 1024

/** Polls a cluster: lists the objects of all namespaces, and makes entries of those that are exported. */
export async function pollKubernetes(location: LocationOf<'kubernetes'>, pass: Pass): Promise<ReadChange | undefined> {
  await using cluster = openCluster(location)
  const { signal, maxBytes } = pass
  const budget = createBudget(maxBytes)
  const objects: Exportable[] = []
  let kept = 0
  const keep = (object: Exportable) => {
    const part = pickExportable(object)
    kept += JSON.stringify(part).length
    if (kept > MOST_KEPT)
      throw new SourceError('too_large', `the exported objects have more than ${MOST_KEPT} bytes of annotations`)
    objects.push(part)
  }
  for (const { kind, plural } of EXPORTED_KINDS)
    for (const namespace of location.namespaces) {
      const take = (object: Exportable) => {
        if (isExported(object, location.group)) keep({ ...object, kind })
      }
      await listObjects(cluster, { plural, namespace, signal }, { budget, take })
    }

  const catalog = buildEntries(objects, location.group)
  const cursor = hash('sha256', JSON.stringify([catalog.versions, catalog.problems]), 'base64url')
  if (cursor === pass.cursor) return undefined
  return async () => ({ complete: true, batches: [catalog], cursor: () => cursor })
}

function pickExportable({ kind, metadata, spec }: Exportable): Exportable {
  const { name, namespace, uid, annotations = {} } = metadata
  const transport = spec?.transport
  return {
    kind,
    metadata: { name, namespace, uid, annotations },
    ...(transport !== undefined && { spec: { transport } }),
  }
}

const SCHEMA = 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json'
const DEFAULT_VERSION = '1.0.0'

/**
 * Makes the entries of a cluster, from objects with the annotation `registry-export: "true"`. An object with invalid
 * annotations becomes a problem: invalid claims must never be taken for no claims.
 */
function buildEntries(objects: readonly Exportable[], group: string): Catalog {
  const versions: IncomingVersion[] = []
  const problems: Problem[] = []
  const owners = new Map<string, string>()
  for (const object of objects) {
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

/** Tells whether an object is exported, and is not being deleted. */
function isExported({ metadata }: Exportable, group: string): boolean {
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
