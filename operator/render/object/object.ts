import type { KubernetesObject, OwnerReference } from '../../model/view.ts'
import { buildLabels, type Workload } from './names.ts'

export const VERSION = 'v1beta1'

export const INSTALLATION = /^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$/

/** Builds the owner reference for garbage collection. Empty while the workload has no uid, as in files. */
export function ownerReferences(workload: Workload, group: string): { ownerReferences?: OwnerReference[] } {
  const { name, uid } = workload.metadata
  if (uid === undefined) return {}
  const owner = { apiVersion: `${group}/${VERSION}`, kind: workload.kind, name, uid }
  return { ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: true }] }
}

/** The identity of a child, with labels and annotations besides those of every child. */
interface ChildIdentity {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

const sorted = (record: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)))

export const stringMap = <K extends string>(key: K, value: Readonly<Record<string, string>>) =>
  (Object.keys(value).length === 0 ? {} : { [key]: sorted(value) }) as { [P in K]?: Record<string, string> }

/** Builds a labelled, owned child in the workload's namespace. Our own labels win over `identity.labels`. */
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
      ...stringMap('labels', { ...identity.labels, ...buildLabels(workload) }),
      ...stringMap('annotations', identity.annotations ?? {}),
      ...ownerReferences(workload, group),
    },
    ...body,
  }
}

/** Returns the label that names the installation that manages an object. */
export const installationLabel = (group: string): string => `${group}/installation`

/**
 * Builds a function that tells whether an installation manages an object: a named one the objects whose label has its
 * name, the unnamed one those without the label.
 */
export const isOfInstallation =
  (group: string, installation: string | undefined) =>
  ({ metadata }: KubernetesObject): boolean =>
    (metadata as { readonly labels?: Readonly<Record<string, string>> }).labels?.[installationLabel(group)] ===
    installation
