import type { KubernetesObject } from '../../model/view.ts'

/** An object of one of our kinds as it is kept: nobody asks who has set which field of it, and that is half of it. */
export function keptObject(object: KubernetesObject): KubernetesObject {
  delete (object.metadata as KubernetesObject['metadata'] & { managedFields?: unknown }).managedFields
  return object
}
