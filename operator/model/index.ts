import type { KindDeclaration, ObjectOf } from '../../crds/define.ts'
import { kinds as allKinds, completed } from '../../crds/index.ts'
import type {
  ConfigMapContent,
  KubernetesObject,
  ObjectName,
  SecretPresence,
  SourceObservation,
  WholeView,
  WorkloadObservation,
} from './view.ts'

export * from './view.ts'

interface Named {
  readonly namespace: string
  readonly name: string
}

type NamedSecret = Named & { readonly keys: Iterable<readonly [key: string, revision: string]> }
type NamedConfigMap = Named & ConfigMapContent
export type NamedObservation = Named & { readonly kind: string } & WorkloadObservation
export type NamedSources = Named & { readonly sources: readonly SourceObservation[] }

/** The data that a view reads from. Its owner changes it between two reconciles, never during one. */
export interface World {
  readonly objects: ObjectIndex
  readonly secrets: Map<string, SecretPresence>
  readonly configMaps: Map<string, ConfigMapContent>
  readonly observations: Map<string, WorkloadObservation>
  readonly sources: Map<string, readonly SourceObservation[]>
  readonly view: WholeView
}

export function createWorld(kinds: Readonly<Record<string, KindDeclaration>> = allKinds): World {
  const objects = createObjectIndex(kinds)
  const secrets = new Map<string, SecretPresence>()
  const configMaps = new Map<string, ConfigMapContent>()
  const observations = new Map<string, WorkloadObservation>()
  const sources = new Map<string, readonly SourceObservation[]>()
  const view: WholeView = {
    get: <K extends KindDeclaration>(kind: K, namespace: string, name: string) =>
      objects.get(kind.kind, namespace, name) as ObjectOf<K> | undefined,
    list: <K extends KindDeclaration>(kind: K, namespace: string) =>
      objects.list(kind.kind, namespace) as unknown as readonly ObjectOf<K>[],
    all: () => objects.all(),
    referrers: (kind, namespace, name) => objects.referrers(kind.kind, namespace, name),
    secret: (namespace, name) => secrets.get(`${namespace}/${name}`),
    configMap: (namespace, name) => configMaps.get(`${namespace}/${name}`),
    observe: (kind, namespace, name) => observations.get(`${kind}/${namespace}/${name}`),
    sources: (namespace, name) => sources.get(`${namespace}/${name}`),
  }
  return { objects, secrets, configMaps, observations, sources, view }
}

/** The content of a world that is built at once. Later objects of the same name replace earlier ones. */
export interface WorldContent {
  readonly objects: Iterable<KubernetesObject>
  readonly secrets?: Iterable<NamedSecret>
  readonly configMaps?: Iterable<NamedConfigMap>
  readonly observations?: Iterable<NamedObservation>
  readonly sources?: Iterable<NamedSources>
}

/** Fills a world from lists, in any order. Throws a TypeError on an object that isn't of one of our kinds. */
export function fillWorld(content: WorldContent, kinds?: Readonly<Record<string, KindDeclaration>>): World {
  const world = createWorld(kinds)
  for (const object of content.objects) world.objects.put(object)
  for (const { namespace, name, keys } of content.secrets ?? [])
    world.secrets.set(`${namespace}/${name}`, { keys: new Map(keys) })
  for (const { namespace, name, data } of content.configMaps ?? [])
    world.configMaps.set(`${namespace}/${name}`, { data })
  for (const { kind, namespace, name, ...observation } of content.observations ?? [])
    world.observations.set(`${kind}/${namespace}/${name}`, observation)
  for (const { namespace, name, sources } of content.sources ?? []) world.sources.set(`${namespace}/${name}`, sources)
  return world
}

/** Creates the view of a constant world from lists, for `render`, `validate` and tests. */
export const createView = (content: WorldContent, kinds?: Readonly<Record<string, KindDeclaration>>): WholeView =>
  fillWorld(content, kinds).view

export interface ObjectIndex {
  put(object: KubernetesObject): void
  delete(kind: string, namespace: string, name: string): void
  get(kind: string, namespace: string, name: string): KubernetesObject | undefined
  list(kind: string, namespace: string): readonly KubernetesObject[]
  all(): readonly KubernetesObject[]
  /** Returns what names this object (or Secret, or ConfigMap), existing or not, sorted by kind, then name. */
  referrers(kind: string, namespace: string, name: string): readonly ObjectName[]
  /** Returns what an object names, including Secrets and ConfigMaps. A change of the object reconciles these. */
  references(kind: string, namespace: string, name: string): readonly ObjectName[]
}

/** Sorts by code unit, so that the order is the same on every machine and in every locale. */
export const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

export const byKindAndName = (a: ObjectName, b: ObjectName) => byText(a.kind, b.kind) || byText(a.name, b.name)
const bucketKey = (kind: string, namespace: string) => `${namespace}/${kind}`
const objectKey = (kind: string, namespace: string, name: string) => `${namespace}/${kind}/${name}`

const nothing: readonly never[] = []

/** A map whose values are also read in order. The order is computed on demand, once per change. */
class Bucket<T> {
  readonly members = new Map<string, T>()
  readonly #order: (a: T, b: T) => number
  #sorted: readonly T[] | undefined

  constructor(order: (a: T, b: T) => number) {
    this.#order = order
  }

  set(key: string, member: T): void {
    this.members.set(key, member)
    this.#sorted = undefined
  }

  remove(key: string): boolean {
    if (this.members.delete(key)) this.#sorted = undefined
    return this.members.size === 0
  }

  sorted(): readonly T[] {
    return (this.#sorted ??= [...this.members.values()].sort(this.#order))
  }
}

const insert = <T>(into: Map<string, Bucket<T>>, key: string, order: (a: T, b: T) => number): Bucket<T> => {
  let bucket = into.get(key)
  if (!bucket) into.set(key, (bucket = new Bucket(order)))
  return bucket
}

const byName = (a: KubernetesObject, b: KubernetesObject) => byText(a.metadata.name, b.metadata.name)

/** Returns every name that the object's spec contains, once each: objects of our kinds, Secrets and ConfigMaps. */
function findReferences({ references }: KindDeclaration, object: KubernetesObject): readonly ObjectName[] {
  const found = references.find(object['spec']).map(({ kind, name }) => ({ kind, name }))
  if (found.length < 2) return found
  const kinds = references.kinds()
  const once = new Map(found.map((one) => [`${one.kind}/${one.name}`, one]))
  return [...once.values()].sort((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind) || byText(a.name, b.name))
}

/**
 * Builds an empty index over the given kinds. Throws a TypeError on other kinds. The cost of `put` and `delete` does
 * not depend on the size of the world.
 */
export function createObjectIndex(kinds: Readonly<Record<string, KindDeclaration>>): ObjectIndex {
  const buckets = new Map<string, Bucket<KubernetesObject>>()
  const backward = new Map<string, Bucket<ObjectName>>()
  const forward = new Map<string, readonly ObjectName[]>()

  const unlink = (kind: string, namespace: string, name: string) => {
    const key = objectKey(kind, namespace, name)
    for (const target of forward.get(key) ?? nothing) {
      const targetKey = objectKey(target.kind, namespace, target.name)
      if (backward.get(targetKey)?.remove(key)) backward.delete(targetKey)
    }
    forward.delete(key)
  }

  return {
    put(object) {
      const declaration = kinds[object.kind]
      if (!declaration) throw new TypeError(`not a kind of ours: ${object.kind}`)
      const { kind } = object
      const { name, namespace = 'default' } = object.metadata
      unlink(kind, namespace, name)
      insert(buckets, bucketKey(kind, namespace), byName).set(name, completed(declaration, object))
      const targets = findReferences(declaration, object)
      if (targets.length === 0) return
      const key = objectKey(kind, namespace, name)
      forward.set(key, targets)
      const self: ObjectName = { kind, name }
      for (const target of targets)
        insert(backward, objectKey(target.kind, namespace, target.name), byKindAndName).set(key, self)
    },
    delete(kind, namespace, name) {
      unlink(kind, namespace, name)
      const key = bucketKey(kind, namespace)
      if (buckets.get(key)?.remove(name)) buckets.delete(key)
    },
    get: (kind, namespace, name) => buckets.get(bucketKey(kind, namespace))?.members.get(name),
    list: (kind, namespace) => buckets.get(bucketKey(kind, namespace))?.sorted() ?? nothing,
    all: () =>
      [...buckets.keys()].sort(byText).flatMap((key) => (buckets.get(key) as Bucket<KubernetesObject>).sorted()),
    referrers: (kind, namespace, name) => backward.get(objectKey(kind, namespace, name))?.sorted() ?? nothing,
    references: (kind, namespace, name) => forward.get(objectKey(kind, namespace, name)) ?? nothing,
  }
}
