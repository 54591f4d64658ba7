/** A kind, declared as data. CRD, type, validation, indexes, watches, RBAC and columns derive from it. */
import type { Static, TObject, TSchema } from 'typebox'
import { limits } from './settings/limits.ts'
import type { CelRule } from './settings/schema.ts'
import { type References, referencesOf } from './walk.ts'

export type { Reference } from './walk.ts'

interface Column {
  readonly name: string
  readonly type: 'string' | 'integer' | 'boolean' | 'date'
  readonly jsonPath: string
  readonly description?: string
  /** Columns with 0 are always shown, columns with 1 only with `-o wide`. */
  readonly priority?: number
}

interface Declared<Spec extends TSchema, Status extends TSchema, Kind extends string> {
  readonly kind: Kind
  readonly plural: string
  readonly shortNames: readonly string[]
  readonly description: string
  /** Other objects reference a config. A workload has pods. A group and an entry have neither. */
  readonly role: 'workload' | 'config' | 'group' | 'entry'
  readonly columns: readonly Column[]
  readonly spec: Spec
  readonly status: Status
}

export interface KindDeclaration<
  Spec extends TSchema = TSchema,
  Status extends TSchema = TSchema,
  Kind extends string = string,
> extends Declared<Spec, Status, Kind> {
  /** The references that the schema of the spec declares: to objects of our kinds, Secrets and ConfigMaps. */
  readonly references: References
}

/** Declares a kind and adds the references that its schema marks (`refersTo`). */
export const defineKind = <Spec extends TObject, Status extends TObject, const Kind extends string>(
  declared: Declared<Spec, Status, Kind>,
): KindDeclaration<Spec, Status, Kind> => ({ ...declared, references: referencesOf(declared.spec) })

export interface ObjectMeta {
  name: string
  namespace: string
  uid?: string
  generation?: number
  resourceVersion?: string
  creationTimestamp?: string
  deletionTimestamp?: string
  labels?: Record<string, string>
  annotations?: Record<string, string>
  finalizers?: string[]
}

/** The TypeScript type of a kind's objects, with defaults applied. */
export interface ObjectOf<K extends KindDeclaration> {
  apiVersion: string
  kind: K['kind']
  metadata: ObjectMeta
  spec: Static<K['spec']>
  status?: Partial<Static<K['status']>>
}

/** Printer columns that several kinds share. */
export const ready: Column = {
  name: 'Ready',
  type: 'string',
  jsonPath: '.status.conditions[?(@.type=="Ready")].status',
  description: 'Whether everything is in order.',
}
export const reason: Column = {
  name: 'Reason',
  type: 'string',
  jsonPath: '.status.conditions[?(@.type=="Ready")].reason',
  description: 'Reason of the condition Ready.',
  priority: 1,
}
export const phase: Column = { name: 'Phase', type: 'string', jsonPath: '.status.phase' }
export const url: Column = { name: 'URL', type: 'string', jsonPath: '.status.url' }
export const age: Column = { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' }
export const users: Column = {
  name: 'Users',
  type: 'integer',
  jsonPath: '.status.referencingWorkloadCount',
  description: 'Number of objects that refer to it.',
}

export const VERSION = 'v1beta1'

/** Returns the `apiVersion` of our objects in a group. */
export const formatApiVersion = (group: string): string => `${group}/${VERSION}`

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
