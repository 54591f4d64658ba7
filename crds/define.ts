/** A kind, declared as data. CRD, type, validation, indexes, watches, RBAC and columns derive from it. */
import type { Static, TObject, TSchema } from 'typebox'
import { findReferences, type ReferenceDeclaration } from './walk.ts'

export type { ReferenceDeclaration }

export interface Column {
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
  /** The fields of the spec that name objects of our kinds, derived from the schema. */
  readonly references: readonly ReferenceDeclaration[]
  /** The fields of the spec that name Secrets and ConfigMaps, derived from the schema. */
  readonly coreReferences: readonly ReferenceDeclaration[]
}

const CORE = new Set(['Secret', 'ConfigMap'])

/** Declares a kind and adds the references that its schema marks (`refersTo`). */
export const defineKind = <Spec extends TObject, Status extends TObject, const Kind extends string>(
  declared: Declared<Spec, Status, Kind>,
): KindDeclaration<Spec, Status, Kind> => {
  const references = findReferences(declared.spec)
  const isCore = ({ kind }: ReferenceDeclaration) => CORE.has(kind)
  return {
    ...declared,
    references: references.filter((reference) => !isCore(reference)),
    coreReferences: references.filter(isCore),
  }
}

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
