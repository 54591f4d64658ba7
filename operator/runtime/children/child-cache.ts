import type { V1Container, V1PodTemplateSpec } from '@kubernetes/client-node'
import type { Steps } from '../../../crds/settings/stepwise.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { formatKey } from '../queue/queue.ts'
import type { ReflectedStore } from '../watch/reflector.ts'
import { trimEntries } from './managed-fields.ts'
import { findController, findWorkload } from './ownership.ts'

const formatObjectKey = ({ kind, metadata }: KubernetesObject) =>
  formatKey(kind, metadata.namespace ?? '', metadata.name)

const formatScope = (kind: string, namespace = '') => `${kind}/${namespace}`

/** Tells whether resource version `a` is before `b`. Only decimal numbers have an order (KEP-5504); otherwise false. */
function isBefore(a = '', b = ''): boolean {
  return /^[0-9]+$/.test(a) && /^[0-9]+$/.test(b) && BigInt(a) < BigInt(b)
}

const isOlder = (a: KubernetesObject, b: KubernetesObject): boolean =>
  a.metadata.uid === b.metadata.uid && isBefore(a.metadata.resourceVersion, b.metadata.resourceVersion)

/** Returns the workload that an object's labels name, whoever owns the object. */
function formatLabelKey({ metadata }: KubernetesObject): string | undefined {
  const workload = findWorkload(metadata)
  return workload && formatKey(workload.kind, workload.namespace, workload.name)
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
    return this.#objects.get(formatKey(kind, namespace, name))
  }

  ownedBy(uid: string): readonly KubernetesObject[] {
    return [...(this.#byOwner.get(uid)?.values() ?? [])]
  }

  labelled(kind: string, namespace: string, name: string): readonly KubernetesObject[] {
    return [...(this.#byLabels.get(formatKey(kind, namespace, name))?.values() ?? [])]
  }

  /** Stores the answer to one of our own writes, unless the watch has delivered that version already. */
  written(object: KubernetesObject): void {
    const { kind, metadata } = object
    const told = this.#told.get(formatScope(kind, metadata.namespace)) ?? this.#told.get(formatScope(kind))
    if (!isBefore(metadata.resourceVersion, told)) this.#set(formatObjectKey(object), trimChild(object))
    this.#onChange(object)
  }

  /** Returns the store of one watch. Its lists replace objects of this `kind` and `namespace` only. */
  store(kind: string, namespace?: string): ReflectedStore {
    const scope = formatScope(kind, namespace)
    const tell = (version = '') => this.#told.set(scope, version)
    return {
      put: (object) => {
        tell(object.metadata.resourceVersion)
        this.#put(object)
      },
      remove: (object) => {
        tell(object.metadata.resourceVersion)
        this.#drop(formatObjectKey(object))
      },
      replace: (objects, version) => {
        tell(version)
        const present = new Set(objects.map(formatObjectKey))
        for (const [key, object] of this.#objects) {
          if (object.kind !== kind || (namespace && object.metadata.namespace !== namespace)) continue
          if (!present.has(key)) this.#drop(key)
        }
        return this.#putAll(objects)
      },
    }
  }

  *#putAll(objects: readonly KubernetesObject[]): Steps<void> {
    for (const object of objects) {
      this.#put(object)
      yield
    }
  }

  #put(object: KubernetesObject): void {
    const key = formatObjectKey(object)
    const known = this.#objects.get(key)
    if (known && (isOlder(object, known) || known.metadata.resourceVersion === object.metadata.resourceVersion)) return
    this.#set(key, object)
    this.#onChange(object)
    if (
      known &&
      (findController(known)?.uid !== findController(object)?.uid || formatLabelKey(known) !== formatLabelKey(object))
    )
      this.#onChange(known)
  }

  #set(key: string, object: KubernetesObject): void {
    this.#unlink(key)
    this.#objects.set(key, object)
    addToIndex(this.#byOwner, findController(object)?.uid, key, object)
    addToIndex(this.#byLabels, formatLabelKey(object), key, object)
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
    unlink(this.#byLabels, formatLabelKey(known), key)
  }
}

type Index = Map<string, Map<string, KubernetesObject>>

function addToIndex(index: Index, under: string | undefined, key: string, object: KubernetesObject): void {
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

// Children are reduced to what is read of them: whole, they would be most of the operator's memory.

/** The members of a child that are read besides metadata and status once it is known to match what was rendered. */
const KEPT = new Set(['apiVersion', 'kind', 'metadata', 'status', 'immutable', 'roleRef'])
const KEPT_OF_SPEC = [
  'replicas',
  'selector',
  'serviceName',
  'podManagementPolicy',
  'volumeClaimTemplates',
  'clusterIP',
  'loadBalancerClass',
  'loadBalancerSourceRanges',
  'parentRefs',
] as const

/** Drops the parts of `managedFields` that nobody reads. Changes the object that it gets. */
export function trimChild(object: KubernetesObject): KubernetesObject {
  const metadata = object.metadata as KubernetesObject['metadata'] & { managedFields?: unknown }
  if (metadata.managedFields !== undefined) metadata.managedFields = trimEntries(object)
  return object
}

/** Drops the contents of a child that matches. An edited one arrives whole again. Changes the object that it gets. */
export function dropContents(live: KubernetesObject): void {
  for (const field of Object.keys(live)) {
    if (field === 'spec') live[field] = trimSpec(live[field] as Readonly<Record<string, unknown>>)
    else if (!KEPT.has(field)) delete live[field]
  }
}

function trimSpec(spec: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const kept: Record<string, unknown> = {}
  for (const field of KEPT_OF_SPEC) if (spec[field] !== undefined) kept[field] = spec[field]
  if (spec['template'] !== undefined) kept['template'] = trimTemplate(spec['template'] as V1PodTemplateSpec)
  return kept
}

/** Returns what tells why another pod template replaces this one. */
function trimTemplate({ metadata, spec }: V1PodTemplateSpec): V1PodTemplateSpec {
  const readImages = (containers: readonly V1Container[]) => containers.map(({ name, image }) => ({ name, image }))
  const { containers = [], initContainers } = spec ?? {}
  return {
    ...(metadata?.annotations ? { metadata: { annotations: metadata.annotations } } : {}),
    spec: {
      containers: readImages(containers),
      ...(initContainers ? { initContainers: readImages(initContainers) } : {}),
    },
  }
}
