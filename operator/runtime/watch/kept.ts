import type { KubernetesObject } from '../../model/view.ts'

type Metadata = KubernetesObject['metadata'] & { managedFields?: unknown }

/** An object of one of our kinds as it is kept: nobody asks who has set which field of it, and that is half of it. */
export function keptObject(object: KubernetesObject): KubernetesObject {
  delete (object.metadata as Metadata).managedFields
  return object
}

/**
 * A child as it is kept: who has set which field of it is a text until somebody asks. As objects that would be most of
 * what the operator holds.
 */
export function keptChild(object: KubernetesObject): KubernetesObject {
  const metadata = object.metadata as Metadata
  if (Array.isArray(metadata.managedFields)) metadata.managedFields = JSON.stringify(metadata.managedFields)
  return object
}
