import type { KindDeclaration, ObjectOf } from '../../crds/define.ts'
import { kinds as allKinds } from '../../crds/index.ts'
import { createObjectIndex, type ObjectIndex } from './object-index.ts'
import type {
  ConfigMapContent,
  KubernetesObject,
  SecretPresence,
  SourceObservation,
  WholeView,
  WorkloadObservation,
} from './view.ts'

export type { ObjectIndex } from './object-index.ts'
export { byText, createObjectIndex } from './object-index.ts'
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
