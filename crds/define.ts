/**
 * A kind, declared as data. The runtime derives everything else from it: CRD, TypeScript type, validation, indexes,
 * watches, RBAC, columns.
 */
import type { Static, TObject, TSchema } from 'typebox'
import { type ReferenceDeclaration, referencesOf } from './references.ts'

export type { ReferenceDeclaration }

export interface Column {
  readonly name: string
  readonly type: 'string' | 'integer' | 'boolean' | 'date'
  readonly jsonPath: string
  readonly description?: string
  /** 0 is shown always, 1 with `-o wide`. */
  readonly priority?: number
}

interface Declared<Spec extends TSchema, Status extends TSchema, Kind extends string> {
  readonly kind: Kind
  readonly plural: string
  readonly shortNames: readonly string[]
  readonly description: string
  /** A config is referenced by others; a workload has pods; a group and an entry have neither. */
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
  /** Where the spec names objects of our kinds; derived from the schema. */
  readonly references: readonly ReferenceDeclaration[]
  /** Where the spec names Secrets and ConfigMaps; derived from the schema. */
  readonly coreReferences: readonly ReferenceDeclaration[]
}

const CORE = new Set(['Secret', 'ConfigMap'])

/** Declares a kind: the value is what it is given, with the references that its schema marks (`refersTo`). */
export const defineKind = <Spec extends TObject, Status extends TObject, const Kind extends string>(
  declared: Declared<Spec, Status, Kind>,
): KindDeclaration<Spec, Status, Kind> => {
  const references = referencesOf(declared.spec)
  const isCore = ({ kind }: ReferenceDeclaration) => typeof kind === 'string' && CORE.has(kind)
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
