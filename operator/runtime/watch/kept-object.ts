import type { KubernetesObject } from '../../model/view.ts'
import { canonicalJson } from '../../render/object/canonical.ts'

/** Returns what others read of an object besides its spec, as text. */
const formatMetadata = ({ metadata: { resourceVersion: _, finalizers: __, ...metadata } }: KubernetesObject) =>
  canonicalJson(metadata)

/** Tells whether a change affects only status and finalizers. A new spec has a new generation. */
export const isOwnAffair = (before: KubernetesObject, after: KubernetesObject): boolean =>
  after.metadata.generation !== undefined && formatMetadata(before) === formatMetadata(after)

export const sameFinalizers = (a: KubernetesObject, b: KubernetesObject): boolean =>
  canonicalJson(a.metadata.finalizers ?? []) === canonicalJson(b.metadata.finalizers ?? [])

/** Drops `managedFields` from an object of one of our kinds: nobody reads them, and they are half of it. */
export function keptObject(object: KubernetesObject): KubernetesObject {
  delete (object.metadata as KubernetesObject['metadata'] & { managedFields?: unknown }).managedFields
  return object
}
