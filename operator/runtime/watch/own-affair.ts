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
