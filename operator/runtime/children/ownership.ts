import { kinds } from '../../../crds/index.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { World } from '../../model/index.ts'
import type { KubernetesObject, OwnerReference } from '../../model/view.ts'
import { buildLabels } from '../../render/object/object.ts'
import { ownFields } from './managed-fields.ts'

/** Our children carry their workload's kind in lower case (`app.kubernetes.io/name`) and its name (`…/instance`). */
const kindsByLowerCase = new Map(Object.keys(kinds).map((kind) => [kind.toLowerCase(), kind]))

export interface WorkloadName {
  readonly kind: string
  readonly namespace: string
  readonly name: string
}

/** Returns the workload that an object's labels name, or undefined if they name none of ours. */
export function findWorkload({ labels = {}, namespace = '' }: KubernetesObject['metadata']): WorkloadName | undefined {
  const kind = kindsByLowerCase.get(labels['app.kubernetes.io/name'] ?? '')
  const name = labels['app.kubernetes.io/instance']
  return kind && name ? { kind, namespace, name } : undefined
}

export const findController = (object: KubernetesObject): OwnerReference | undefined =>
  object.metadata.ownerReferences?.find((reference) => reference.controller === true)

export interface Owner extends WorkloadName {
  readonly uid: string
}

/**
 * The relation of an object to the workload whose child has its name. `left-behind`: the workload lost it (a removed
 * owner reference, `--cascade=orphan`) and adopts it. `going`: it is being deleted.
 */
export type Standing = 'own' | 'left-behind' | 'going' | 'foreign'

interface Evidence {
  readonly isGone: (owner: OwnerReference, namespace: string) => boolean
  /** The uid of the last known object of this child. */
  readonly knownUid: string | undefined
}

/** Tells whether an owner of one of our kinds is gone: its name is free, or another object has it. */
export function isGoneOwner(
  { apiVersion, kind, name, uid }: OwnerReference,
  namespace: string,
  resources: ReadonlyMap<string, Resource>,
  { objects }: World,
): boolean {
  const resource = resources.get(kind)
  if (!resource || apiVersion.split('/')[0] !== resource.group) return false
  return objects.get(kind, namespace, name)?.metadata.uid !== uid
}

function hasLabels({ metadata }: KubernetesObject, { kind, namespace, name }: Owner): boolean {
  const wanted = Object.entries(buildLabels({ kind, metadata: { namespace, name } }))
  return wanted.every(([label, value]) => metadata.labels?.[label] === value)
}

/** Returns the standing of an object. It is left behind only if our own field manager has made it. */
export function findStanding(live: KubernetesObject, owner: Owner, { isGone, knownUid }: Evidence): Standing {
  if (live.metadata.deletionTimestamp) return 'going'
  const holder = findController(live)
  if (holder?.uid === owner.uid) return 'own'
  if (holder && !isGone(holder, owner.namespace)) return 'foreign'
  if (!holder && live.metadata.ownerReferences?.some(({ uid }) => uid === owner.uid)) return 'own'
  const isKnown = knownUid !== undefined && live.metadata.uid === knownUid
  return isKnown || (ownFields(live) !== undefined && hasLabels(live, owner)) ? 'left-behind' : 'foreign'
}
