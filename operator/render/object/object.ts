import type { KubernetesObject, OwnerReference } from '../../model/view.ts'
import { labelsOf, type Workload } from './names.ts'

/** Version of our kinds in our group. */
export const VERSION = 'v1beta1'

/** What the name of an installation may be: it is a label's value, and a part of the names of objects. */
export const INSTALLATION = /^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$/

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

/** The label by which an object says which installation of the operator is to look after it. */
export const installationLabel = (group: string): string => `${group}/installation`

/**
 * Makes the function that says whether an installation looks after an object: one that has a name after those whose label
 * has this name, the one without a name after those without the label. So no object is of two.
 */
export const isOfInstallation =
  (group: string, installation: string | undefined) =>
  ({ metadata }: KubernetesObject): boolean =>
    (metadata as { readonly labels?: Readonly<Record<string, string>> }).labels?.[installationLabel(group)] ===
    installation
