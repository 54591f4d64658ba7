/** Rules over a whole object that follow from its kind's role. */
import type { KindDeclaration } from './define.ts'
import { limits } from './settings/limits.ts'
import type { CelRule } from './settings/schema.ts'

export const VERSION = 'v1beta1'

/** Returns the `apiVersion` of our objects in a group. */
export const apiVersionOf = (group: string): string => `${group}/${VERSION}`

/**
 * A workload's name is part of names of Services (`mcpreg-<name>`, RFC 1123 labels of at most 63 characters) and of a
 * StatefulSet's revision label (`<name>-<10 letters>`).
 */
const workloadName: CelRule = {
  rule: `self.metadata.name.matches('^[a-z0-9]([a-z0-9-]{0,${limits.workloadName - 2}}[a-z0-9])?$')`,
  message: `the name of a workload must be lower-case letters, digits and "-", at most ${limits.workloadName}: Services are named after it`,
}

export const rootRules = ({ role }: KindDeclaration): readonly CelRule[] => (role === 'workload' ? [workloadName] : [])

/**
 * Tells whether an object may omit `spec`, which the API server then fills in: no workload, and nothing is required.
 */
export const specMayBeLeftOut = ({ role, spec }: KindDeclaration): boolean =>
  role !== 'workload' && ((spec as { readonly required?: readonly string[] }).required ?? []).length === 0
