import type { KubernetesObject, OwnerReference } from '../../model/view.ts'
import { labelsOf, type Workload } from './names.ts'

/** Version of our kinds in our group. */
export const VERSION = 'v1beta1'

/**
 * The workload as controller of its children (garbage collection follows it). None while it has no uid, as in files:
 * the API server refuses a reference without one.
 */
export function ownerReferences(workload: Workload, group: string): { ownerReferences?: OwnerReference[] } {
  const { name, uid } = workload.metadata
  if (uid === undefined) return {}
  const owner = { apiVersion: `${group}/${VERSION}`, kind: workload.kind, name, uid }
  return { ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: true }] }
}

/** What a child is, with the labels and annotations beside those that every child has. */
interface ChildIdentity {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

const sorted = (record: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)))

/** A map of strings by key, or nothing where it is empty. */
export const stringMap = <K extends string>(key: K, value: Readonly<Record<string, string>>) =>
  (Object.keys(value).length === 0 ? {} : { [key]: sorted(value) }) as { [P in K]?: Record<string, string> }

/** A child of a workload: labelled, owned, in the workload's namespace. Our own labels win over `identity.labels`. */
export function child(
  workload: Workload,
  group: string,
  identity: ChildIdentity,
  body: Record<string, unknown>,
): KubernetesObject {
  return {
    apiVersion: identity.apiVersion,
    kind: identity.kind,
    metadata: {
      name: identity.name,
      namespace: workload.metadata.namespace,
      ...stringMap('labels', { ...identity.labels, ...labelsOf(workload) }),
      ...stringMap('annotations', identity.annotations ?? {}),
      ...ownerReferences(workload, group),
    },
    ...body,
  }
}
