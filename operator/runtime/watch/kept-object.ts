import type { KubernetesObject } from '../../model/view.ts'
import { canonicalJson } from '../../render/object/canonical.ts'

/** What others read of an object besides its spec, as text. */
const metadataOf = ({ metadata: { resourceVersion: _, finalizers: __, ...metadata } }: KubernetesObject) =>
  canonicalJson(metadata)

/** Whether a change is of what nobody reads of another object: status and finalizers. A new spec has a new generation. */
export const isOwnAffair = (before: KubernetesObject, after: KubernetesObject): boolean =>
  after.metadata.generation !== undefined && metadataOf(before) === metadataOf(after)

export const sameFinalizers = (a: KubernetesObject, b: KubernetesObject): boolean =>
  canonicalJson(a.metadata.finalizers ?? []) === canonicalJson(b.metadata.finalizers ?? [])

/** An object of one of our kinds as it is kept: nobody asks who has set which field of it, and that is half of it. */
export function keptObject(object: KubernetesObject): KubernetesObject {
  delete (object.metadata as KubernetesObject['metadata'] & { managedFields?: unknown }).managedFields
  return object
}
