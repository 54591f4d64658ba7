/**
 * A kind, declared as data. The runtime derives everything else from it: CRD, TypeScript type, validation, indexes,
 * watches, RBAC, columns.
 */
import type { Static, TObject, TSchema } from 'typebox'

/** Where an object names another one of the same namespace. */
export interface ReferenceDeclaration {
  /** Kinds that may be meant. More than one only where the name is looked up in each (members of a group). */
  readonly kind: string | readonly string[]
  /** Names found in one object's spec; must not throw on what the schema lets through. */
  readonly names: (spec: never) => readonly string[]
}

export interface Column {
  readonly name: string
  readonly type: 'string' | 'integer' | 'boolean' | 'date'
  readonly jsonPath: string
  readonly description?: string
  /** 0 is shown always, 1 with `-o wide`. */
  readonly priority?: number
}

export interface KindDeclaration<Spec extends TSchema = TSchema, Status extends TSchema = TSchema> {
  readonly kind: string
  readonly plural: string
  readonly shortNames: readonly string[]
  readonly description: string
  /** A config is referenced by others; a workload has pods; a group and an entry have neither. */
  readonly role: 'workload' | 'config' | 'group' | 'entry'
  readonly columns: readonly Column[]
  readonly spec: Spec
  readonly status: Status
  readonly references: readonly ReferenceDeclaration[]
}

/** Declares a kind; the value is what it is given, typed. */
export const defineKind = <Spec extends TObject, Status extends TObject>(
  declaration: KindDeclaration<Spec, Status>,
): KindDeclaration<Spec, Status> => declaration

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

/** The TypeScript type of a kind's objects. */
export interface ObjectOf<K extends KindDeclaration> {
  apiVersion: string
  kind: K['kind']
  metadata: ObjectMeta
  spec: Static<K['spec']>
  status?: Partial<Static<K['status']>>
}
