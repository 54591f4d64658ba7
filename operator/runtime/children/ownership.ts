import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { World } from '../../model/index.ts'
import type { KubernetesObject, OwnerReference } from '../../model/view.ts'
import { labelsOf } from '../../render/object/names.ts'
import { controllerOf } from './child-cache.ts'
import { ownFields } from './managed-fields.ts'

/** A workload whose children are looked after. */
export interface Owner {
  readonly kind: string
  readonly uid: string
  readonly namespace: string
  readonly name: string
}

/**
 * Whose an object on a child's name is: the workload's own; left behind by it (an owner reference was taken away by
 * hand, or the workload was deleted with `--cascade=orphan` and is there again) and so to be taken up; going; or
 * somebody else's.
 */
export type Standing = 'own' | 'left-behind' | 'going' | 'foreign'

/** What decides whose an object is, besides the object. */
interface Evidence {
  /** Whether an owner is no more, as far as that is known. */
  readonly isGone: (owner: OwnerReference, namespace: string) => boolean
  /** Uid of the object that was last known as this child. */
  readonly knownUid: string | undefined
}

/** Whether an owner of one of our kinds is gone: another object has its name, or none. */
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

/** Whether an object has the labels of a workload's children, all of them. */
function hasLabels({ metadata }: KubernetesObject, { kind, namespace, name }: Owner): boolean {
  const wanted = Object.entries(labelsOf({ kind, metadata: { namespace, name } }))
  return wanted.every(([label, value]) => metadata.labels?.[label] === value)
}

/** See `Standing`. An object is left behind only if our own field manager has made it. */
export function standingOf(live: KubernetesObject, owner: Owner, { isGone, knownUid }: Evidence): Standing {
  if (live.metadata.deletionTimestamp) return 'going'
  const holder = controllerOf(live)
  if (holder?.uid === owner.uid) return 'own'
  if (holder && !isGone(holder, owner.namespace)) return 'foreign'
  if (!holder && live.metadata.ownerReferences?.some(({ uid }) => uid === owner.uid)) return 'own'
  const isKnown = knownUid !== undefined && live.metadata.uid === knownUid
  return isKnown || (ownFields(live) !== undefined && hasLabels(live, owner)) ? 'left-behind' : 'foreign'
}
