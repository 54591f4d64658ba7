import type { KubernetesObject, OwnerReference } from '../../model/view.ts'
import { keyOf } from '../queue/keys.ts'
import type { ReflectedStore } from '../watch/reflector.ts'
import { keptChild } from './kept-child.ts'
import { findWorkload } from './workload-labels.ts'

const keyOfObject = ({ kind, metadata }: KubernetesObject) => keyOf(kind, metadata.namespace ?? '', metadata.name)

const scopeOf = (kind: string, namespace = '') => `${kind}/${namespace}`

export const findController = (object: KubernetesObject): OwnerReference | undefined =>
  object.metadata.ownerReferences?.find((reference) => reference.controller === true)

/** Tells whether resource version `a` is before `b`. Only decimal numbers have an order (KEP-5504); otherwise false. */
function isBefore(a = '', b = ''): boolean {
  return /^[0-9]+$/.test(a) && /^[0-9]+$/.test(b) && BigInt(a) < BigInt(b)
}

const isOlder = (a: KubernetesObject, b: KubernetesObject): boolean =>
  a.metadata.uid === b.metadata.uid && isBefore(a.metadata.resourceVersion, b.metadata.resourceVersion)

/** Returns the workload that an object's labels name, whoever owns the object. */
function labelKey({ metadata }: KubernetesObject): string | undefined {
  const workload = findWorkload(metadata)
  return workload && keyOf(workload.kind, workload.namespace, workload.name)
}

/** Live children of all kinds as of the last watch event or write of ours. */
export class ChildCache {
  readonly #objects = new Map<string, KubernetesObject>()
  readonly #byOwner = new Map<string, Map<string, KubernetesObject>>()
  readonly #byLabels = new Map<string, Map<string, KubernetesObject>>()
  /** The version up to which each watch has delivered everything, by kind and namespace. */
  readonly #told = new Map<string, string>()
  readonly #onChange: (object: KubernetesObject) => void

  /** @param onChange gets every object that came, changed or went, and both states if its owner has changed */
  constructor(onChange: (object: KubernetesObject) => void) {
    this.#onChange = onChange
  }

  get(kind: string, namespace: string, name: string): KubernetesObject | undefined {
    return this.#objects.get(keyOf(kind, namespace, name))
  }

  ownedBy(uid: string): readonly KubernetesObject[] {
    return [...(this.#byOwner.get(uid)?.values() ?? [])]
  }

  labelled(kind: string, namespace: string, name: string): readonly KubernetesObject[] {
    return [...(this.#byLabels.get(keyOf(kind, namespace, name))?.values() ?? [])]
  }

  /** Stores the answer to one of our own writes, unless the watch has delivered that version already. */
  written(object: KubernetesObject): void {
    const { kind, metadata } = object
    const told = this.#told.get(scopeOf(kind, metadata.namespace)) ?? this.#told.get(scopeOf(kind))
    if (!isBefore(metadata.resourceVersion, told)) this.#set(keyOfObject(object), keptChild(object))
    this.#onChange(object)
  }

  /** Returns the store of one watch. Its lists replace objects of this `kind` and `namespace` only. */
  store(kind: string, namespace?: string): ReflectedStore {
    const scope = scopeOf(kind, namespace)
    const tell = (version = '') => this.#told.set(scope, version)
    return {
      put: (object) => {
        tell(object.metadata.resourceVersion)
        this.#put(object)
      },
      remove: (object) => {
        tell(object.metadata.resourceVersion)
        this.#drop(keyOfObject(object))
      },
      replace: (objects, version) => {
        tell(version)
        const present = new Set(objects.map(keyOfObject))
        for (const [key, object] of this.#objects) {
          if (object.kind !== kind || (namespace && object.metadata.namespace !== namespace)) continue
          if (!present.has(key)) this.#drop(key)
        }
        for (const object of objects) this.#put(object)
      },
    }
  }

  #put(object: KubernetesObject): void {
    const key = keyOfObject(object)
    const known = this.#objects.get(key)
    if (known && (isOlder(object, known) || known.metadata.resourceVersion === object.metadata.resourceVersion)) return
    this.#set(key, object)
    this.#onChange(object)
    if (known && (findController(known)?.uid !== findController(object)?.uid || labelKey(known) !== labelKey(object)))
      this.#onChange(known)
  }

  #set(key: string, object: KubernetesObject): void {
    this.#unlink(key)
    this.#objects.set(key, object)
    link(this.#byOwner, findController(object)?.uid, key, object)
    link(this.#byLabels, labelKey(object), key, object)
  }

  #drop(key: string): void {
    const known = this.#objects.get(key)
    if (!known) return
    this.#unlink(key)
    this.#objects.delete(key)
    this.#onChange(known)
  }

  #unlink(key: string): void {
    const known = this.#objects.get(key)
    if (!known) return
    unlink(this.#byOwner, findController(known)?.uid, key)
    unlink(this.#byLabels, labelKey(known), key)
  }
}

type Index = Map<string, Map<string, KubernetesObject>>

function link(index: Index, under: string | undefined, key: string, object: KubernetesObject): void {
  if (under === undefined) return
  const siblings = index.get(under)
  if (siblings) siblings.set(key, object)
  else index.set(under, new Map([[key, object]]))
}

function unlink(index: Index, under: string | undefined, key: string): void {
  if (under === undefined) return
  const siblings = index.get(under)
  siblings?.delete(key)
  if (siblings?.size === 0) index.delete(under)
}
