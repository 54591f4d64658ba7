import { isObject } from '../../../crds/settings/json.ts'
/**
 * Tells whether a live object holds everything that we rendered. Additions by the API server and other managers are no
 * difference.
 */
import { canonicalQuantity } from '../../render/object/canonical.ts'

/** Keys by which lists of objects are merged (`x-kubernetes-list-map-keys` of the built-in types that we render). */
const MERGE_KEYS: Readonly<Record<string, readonly string[]>> = {
  containers: ['name'],
  initContainers: ['name'],
  volumes: ['name'],
  env: ['name'],
  volumeMounts: ['mountPath'],
  imagePullSecrets: ['name'],
  ownerReferences: ['uid'],
  topologySpreadConstraints: ['topologyKey', 'whenUnsatisfiable'],
  hostAliases: ['ip'],
}

/** Fields below which values are quantities: there `2` equals `"2"`, and `1000m` equals `1`. */
const QUANTITIES = new Set(['limits', 'requests', 'sizeLimit'])

type Fields = Record<string, unknown>

function isSameScalar(rendered: unknown, live: unknown, quantities: boolean): boolean {
  if (rendered === live) return true
  if (!quantities || live === undefined) return false
  const value = canonicalQuantity(String(rendered))
  return value !== undefined && value === canonicalQuantity(String(live))
}

/** Container ports merge by number and protocol, Service ports by number. Other lists named `ports` are atomic. */
function findPortKeys(items: readonly Fields[]): readonly string[] | undefined {
  if (items.every((item) => 'containerPort' in item)) return ['containerPort']
  return items.every((item) => 'port' in item && 'targetPort' in item) ? ['port'] : undefined
}

function mergeKeys(field: string, items: readonly unknown[]): readonly string[] | undefined {
  if (!items.every(isObject)) return undefined
  return field === 'ports' ? findPortKeys(items) : MERGE_KEYS[field]
}

function matchesList(
  rendered: readonly unknown[],
  live: readonly unknown[],
  field: string,
  quantities: boolean,
): boolean {
  const keys = mergeKeys(field, rendered)
  if (!keys) {
    return rendered.length === live.length && rendered.every((item, at) => matchesValue(item, live[at], '', quantities))
  }
  const named = indexItems(live, keys)
  return (rendered as readonly Fields[]).every((item) => {
    const match = named.get(formatKeys(item, keys))
    return match !== undefined && matchesValue(item, match, '', quantities)
  })
}

const formatKeys = (item: Fields, keys: readonly string[]): string => JSON.stringify(keys.map((key) => item[key]))

/** Returns the items of a list by their keys, of several the first. Lists have up to tens of thousands of items. */
function indexItems(list: readonly unknown[], keys: readonly string[]): ReadonlyMap<string, Fields> {
  const found = new Map<string, Fields>()
  for (const item of list) {
    if (!isObject(item)) continue
    const key = formatKeys(item, keys)
    if (!found.has(key)) found.set(key, item)
  }
  return found
}

function matchesValue(rendered: unknown, live: unknown, field: string, quantities: boolean): boolean {
  if (rendered === undefined) return true
  if (Array.isArray(rendered)) {
    return Array.isArray(live)
      ? matchesList(rendered, live, field, quantities)
      : rendered.length === 0 && live === undefined
  }
  if (!isObject(rendered)) return isSameScalar(rendered, live, quantities)
  // The server drops some empty objects and keeps others.
  if (!isObject(live)) return live === undefined && Object.keys(rendered).length === 0
  for (const key of Object.keys(rendered))
    if (!matchesValue(rendered[key], live[key], key, quantities || QUANTITIES.has(key))) return false
  return true
}

/**
 * Tells whether the live object matches, without `status`. Of `metadata` only labels, annotations and owner references
 * count.
 */
export function matches(rendered: object, live: object): boolean {
  const wanted = rendered as Fields
  const there = live as Fields
  const metadata = (wanted['metadata'] ?? {}) as Fields
  const liveMetadata = (there['metadata'] ?? {}) as Fields
  for (const field of ['labels', 'annotations', 'ownerReferences']) {
    if (!matchesValue(metadata[field], liveMetadata[field], field, false)) return false
  }
  return Object.entries(wanted).every(
    ([key, value]) =>
      key === 'metadata' ||
      key === 'status' ||
      key === 'kind' ||
      key === 'apiVersion' ||
      matchesValue(value, there[key], key, false),
  )
}

function pickWrittenValue(rendered: unknown, live: unknown, field: string): unknown {
  if (Array.isArray(rendered)) {
    const keys = mergeKeys(field, rendered)
    if (!keys || !Array.isArray(live)) return live
    const items = rendered as readonly Fields[]
    const named = indexItems(live, keys)
    return items.flatMap((item) => {
      const match = named.get(formatKeys(item, keys))
      return match ? [pickWrittenValue(item, match, '')] : []
    })
  }
  if (!isObject(rendered) || !isObject(live)) return live
  return Object.fromEntries(
    Object.entries(rendered).map(([key, value]) => [key, pickWrittenValue(value, live[key], key)]),
  )
}

/**
 * Returns the rendered object with the values that came back from the write, which may be those of an admission
 * webhook.
 */
export const pickWritten = <T extends object>(rendered: T, written: object): T =>
  pickWrittenValue(rendered, written, '') as T
