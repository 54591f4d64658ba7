import type { KubernetesObject } from '../../model/view.ts'

/** What the name of an installation may be: it is a label's value, and a part of the names of objects. */
export const INSTALLATION = /^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$/

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
