/**
 * Tells which manager set which field of a child. Server-side apply removes only fields of its own manager, so foreign
 * fields in parts that belong to us are recorded as ours, and the next apply removes them.
 */
import { isObject } from '../../../crds/settings/json.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { canonicalJson } from '../../render/object/canonical.ts'

export const MANAGER = 'portico'
/** Holds `replicas` once nobody sets it any more, so that the number survives the hand-over. */
export const REPLICAS_MANAGER = 'portico-replicas'

export interface ManagedFields {
  readonly manager?: string
  readonly operation?: string
  readonly subresource?: string
  readonly apiVersion?: string
  readonly fieldsType?: string
  readonly fieldsV1?: FieldSet
  readonly time?: string
}

/** Fields that others may set on any child: labels, annotations, finalizers and owners. Controllers own the status. */
const OF_OTHERS: FieldPaths = [['f:metadata'], ['f:status']]
/** The number of pods (HPA, kubectl scale) if we render none, and annotations of pods (kubectl rollout restart). */
const OF_PODS: FieldPaths = [
  ['f:spec', 'f:replicas'],
  ['f:spec', 'f:template', 'f:metadata'],
]
const SOURCE_RANGES = ['f:spec', 'f:loadBalancerSourceRanges']
const OF_OTHERS_BY_KIND: Readonly<Record<string, FieldPaths>> = {
  Deployment: OF_PODS,
  StatefulSet: OF_PODS,
  // Values that the API server or a load balancer allots and that can't be changed or taken back; and the settings of
  // traffic from outside, if we render none.
  Service: [
    ['f:spec', 'f:externalTrafficPolicy'],
    SOURCE_RANGES,
    ['f:spec', 'f:clusterIP'],
    ['f:spec', 'f:clusterIPs'],
    ['f:spec', 'f:ipFamilies'],
    ['f:spec', 'f:ipFamilyPolicy'],
    ['f:spec', 'f:healthCheckNodePort'],
    ['f:spec', 'f:loadBalancerClass'],
    ['f:spec', 'f:ports', '*', 'f:nodePort'],
  ],
  // Some distributions add them to every ServiceAccount.
  ServiceAccount: [['f:secrets'], ['f:imagePullSecrets']],
}

const listOthersFields = (kind: string): FieldPaths => [...OF_OTHERS, ...(OF_OTHERS_BY_KIND[kind] ?? [])]

/** Returns the entries of an object, as the API gives it or as it is kept. */
const readEntries = (live: KubernetesObject): readonly ManagedFields[] =>
  (live.metadata as { managedFields?: readonly ManagedFields[] }).managedFields ?? []

const isOurs = ({ manager, operation }: ManagedFields) => manager === MANAGER && operation === 'Apply'

/**
 * Tells whether an entry belongs to somebody else. An admission webhook's addition to our write has our name and the
 * operation Update; it stays, since it would come back.
 */
const isForeign = ({ manager, subresource }: ManagedFields) =>
  !subresource && manager !== MANAGER && manager !== REPLICAS_MANAGER

/** Returns what our own applies have set, or undefined if none is recorded. */
export const ownFields = (live: KubernetesObject): FieldSet | undefined =>
  readEntries(live).find((entry) => !entry.subresource && isOurs(entry))?.fieldsV1

const NO_FIELDS: FieldSet = {}
const REPLICAS: FieldSet = { 'f:spec': { 'f:replicas': {} } }

/** Tells whether our field manager holds `spec.replicas` of a live object. */
export const holdsReplicas = (live: KubernetesObject): boolean =>
  ownFields(live)?.['f:spec']?.['f:replicas'] !== undefined

/** Returns the fields of a foreign entry that others may not set, or NO_FIELDS if there are none. */
function readForeignFields(entry: ManagedFields, kind: string): FieldSet {
  if (!isForeign(entry) || entry.fieldsV1 === undefined) return NO_FIELDS
  const { rest } = splitSet(entry.fieldsV1, listOthersFields(kind))
  return Object.keys(rest).length > 0 ? rest : NO_FIELDS
}

/**
 * Reduces `managedFields` to when we have applied, whether that holds the replicas, and forbidden foreign fields.
 * `takenOver` needs them whole.
 */
export const trimEntries = (live: KubernetesObject): readonly ManagedFields[] =>
  readEntries(live).flatMap((entry) => {
    if (entry.subresource || entry.fieldsV1 === undefined) return []
    const { manager, operation, time } = entry
    if (isOurs(entry)) return [{ manager, operation, time, fieldsV1: holdsReplicas(live) ? REPLICAS : NO_FIELDS }]
    const fieldsV1 = readForeignFields(entry, live.kind)
    return fieldsV1 === NO_FIELDS ? [] : [{ manager, operation, fieldsV1 }]
  })

/** Tells whether a live child has foreign fields that others may not set, whatever was rendered. */
export const hasForeignFields = (live: KubernetesObject): boolean =>
  readEntries(live).some((entry) => readForeignFields(entry, live.kind) !== NO_FIELDS)

/** Returns when an apply of ours last changed a live object (RFC 3339), or its creation time. */
export const lastApplied = (live: KubernetesObject): string =>
  readEntries(live).find((entry) => !entry.subresource && isOurs(entry))?.time ?? live.metadata.creationTimestamp ?? ''

/** Tells whether a set has a field that is not rendered, or a rendered one that is replaced as a whole and differs. */
function deviates(set: FieldSet, rendered: unknown, live: unknown, left: FieldPaths): boolean {
  return Object.entries(set).some(([element, inner]) => {
    if (element === '.') return false
    const below = findPathsBelow(left, element)
    if (below === undefined) return false
    const ours = findValue(rendered, element)
    if (ours === undefined)
      return Object.keys(splitSet(inner, below).rest).length > 0 || Object.keys(inner).length === 0
    const there = findValue(live, element)
    if (Object.keys(inner).length > 0) return deviates(inner, ours, there, below)
    return typeof ours === 'object' && canonicalJson(ours) !== canonicalJson(there)
  })
}

/** Returns the sorted names of the managers that have set fields of a live child that belong to us. */
export function foreignManagers(rendered: KubernetesObject, live: KubernetesObject): readonly string[] {
  const left = listOthersFields(live.kind)
  const found = readEntries(live).filter(
    (entry) => isForeign(entry) && entry.fieldsV1 !== undefined && deviates(entry.fieldsV1, rendered, live, left),
  )
  return [...new Set(found.map(({ manager = 'unknown' }) => manager))].sort()
}

/** Returns fields that others may set but that the API server refuses in combination with the rendered ones. */
export function conflictingFields(rendered: KubernetesObject, live: KubernetesObject): FieldPaths {
  const readSpec = ({ spec = {} }: KubernetesObject) =>
    spec as { readonly type?: string; readonly loadBalancerSourceRanges?: unknown }
  const isHindered =
    live.kind === 'Service' &&
    readSpec(rendered).type !== 'LoadBalancer' &&
    readSpec(live).loadBalancerSourceRanges !== undefined
  return isHindered ? [SOURCE_RANGES] : []
}

/**
 * Returns the `managedFields` of a live child with our manager as the owner of every field that others may not set.
 * With `all`, other writes under our own name are foreign too. `owners`: uids of owner references to remove; `fields`:
 * other fields to remove.
 */
export function takenOver(
  live: KubernetesObject,
  { all, owners, fields }: { readonly all: boolean; readonly owners: readonly string[]; readonly fields: FieldPaths },
): readonly ManagedFields[] {
  const entries = readEntries(live)
  const left = listOthersFields(live.kind)
  const ofOwners = owners.map((uid) => ['f:metadata', 'f:ownerReferences', `k:${JSON.stringify({ uid })}`])
  const gone: FieldPaths = [...ofOwners, ...fields]
  const ours = entries.find((entry) => !entry.subresource && isOurs(entry)) ?? {
    manager: MANAGER,
    operation: 'Apply',
    apiVersion: live.apiVersion,
    fieldsType: 'FieldsV1',
    time: new Date().toISOString().replace(/\.\d+Z$/, 'Z'),
  }
  let own: FieldSet = ours.fieldsV1 ?? {}
  const others = entries.flatMap((entry) => {
    if (entry === ours) return []
    if (entry.subresource || entry.fieldsV1 === undefined) return [entry]
    if (!isForeign(entry) && !(all && entry.manager === MANAGER)) return [entry]
    const { covered: owned, rest: others } = splitSet(entry.fieldsV1, gone)
    const { covered, rest } = splitSet(others, left)
    own = joinSets(own, joinSets(owned, rest))
    return Object.keys(covered).length === 0 ? [] : [{ ...entry, fieldsV1: covered }]
  })
  return [{ ...ours, fieldsV1: own }, ...others]
}

/**
 * Sets of fields as server-side apply writes them (`fieldsV1` of `metadata.managedFields`): `f:name` is a field,
 * `k:{…}` the list item with these keys, `v:…` an item of a set, `.` the thing itself; an empty object is a leaf.
 * Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
 */
export interface FieldSet {
  readonly [element: string]: FieldSet
}

/** Paths of elements; `*` matches any element. A path covers everything below it. */
export type FieldPaths = readonly (readonly string[])[]

const isEmpty = (set: FieldSet): boolean => Object.keys(set).length === 0

/** Returns the rest of the paths below an element, or undefined if one of them ends there and so covers it. */
function findPathsBelow(paths: FieldPaths, element: string): FieldPaths | undefined {
  const below = paths.filter(([first]) => first === element || first === '*').map((path) => path.slice(1))
  return below.some((path) => path.length === 0) ? undefined : below
}

function splitSet(set: FieldSet, paths: FieldPaths): { covered: FieldSet; rest: FieldSet } {
  const covered: Record<string, FieldSet> = {}
  const rest: Record<string, FieldSet> = {}
  for (const [element, inner] of Object.entries(set)) {
    const below = findPathsBelow(paths, element)
    if (below === undefined) covered[element] = inner
    else if (below.length === 0 || isEmpty(inner)) rest[element] = inner
    else {
      const split = splitSet(inner, below)
      if (!isEmpty(split.covered)) covered[element] = split.covered
      if (!isEmpty(split.rest)) rest[element] = split.rest
    }
  }
  return { covered, rest }
}

function joinSets(a: FieldSet, b: FieldSet): FieldSet {
  const joined: Record<string, FieldSet> = { ...a }
  for (const [element, inner] of Object.entries(b)) {
    const other = joined[element]
    joined[element] = other === undefined ? inner : joinSets(other, inner)
  }
  return joined
}

/** Container and Service ports default to TCP. */
const KEY_DEFAULTS: Readonly<Record<string, unknown>> = { protocol: 'TCP' }

function findValue(value: unknown, element: string): unknown {
  const text = element.slice(2)
  switch (element.slice(0, 2)) {
    case 'f:':
      return isObject(value) && Object.hasOwn(value, text) ? value[text] : undefined
    case 'k:': {
      const keys = Object.entries(JSON.parse(text) as Record<string, unknown>)
      const matches = (item: unknown) =>
        isObject(item) && keys.every(([key, wanted]) => (item[key] ?? KEY_DEFAULTS[key]) === wanted)
      return Array.isArray(value) ? value.find(matches) : undefined
    }
    case 'v:': {
      const wanted: unknown = JSON.parse(text)
      return Array.isArray(value) ? value.find((item) => item === wanted) : undefined
    }
    case 'i:':
      return Array.isArray(value) ? value[Number(text)] : undefined
    default:
      return undefined
  }
}
