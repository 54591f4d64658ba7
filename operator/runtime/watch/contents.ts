import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import { type ApiServer, hasStatus, ignoreStatus } from '../../cluster/kubernetes/api-server.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { SecretPresence, World } from '../../model/index.ts'
import type { ClusterView, KubernetesObject } from '../../model/view.ts'
import { hashRevision } from '../../render/object/canonical.ts'
import { splitKey } from '../queue/queue.ts'
import { type Dependency, onObject, trackedView } from './dependencies.ts'
import type { ReflectedStore } from './reflector.ts'
import type { Watches } from './watches.ts'

interface ContentObject extends KubernetesObject {
  readonly data?: Record<string, string>
  readonly binaryData?: Record<string, string>
}

interface ContentOptions<T> {
  readonly api: ApiServer
  readonly resource: Resource
  /** The map that the view reads; keys are `namespace/name`. */
  readonly into: Map<string, T>
  readonly project: (object: ContentObject) => T | Promise<T>
  /** Tells whether the last reconcile of some object has read this content. */
  readonly isWanted: (namespace: string, name: string) => boolean
  /** Called when the view's part of a content has become outdated. */
  readonly onChange: (namespace: string, name: string) => void
}

export type Contents = ReadonlyMap<string, ReferencedContent<unknown>>

/** The number of times a read starts again because its input has changed meanwhile. */
const ROUNDS = 8

interface ContentsOptions {
  readonly api: ApiServer
  readonly world: World
  readonly watches: Watches
  readonly revisionKey: ReadRevisionKey
  readonly isWanted: (dependency: Dependency) => boolean
  readonly onChange: (dependency: Dependency) => void
}

const SECRETS = { group: '', version: 'v1', plural: 'secrets', kind: 'Secret' }
const CONFIG_MAPS = { group: '', version: 'v1', plural: 'configmaps', kind: 'ConfigMap' }

/** Secrets and ConfigMaps that objects reference: watched by metadata, and read when needed and changed. */
class ReferencedContent<T> {
  readonly #options: ContentOptions<T>
  /** The version of each existing one, by `namespace/name`. */
  readonly #versions = new Map<string, string>()
  /** The version at which each was read. */
  readonly #read = new Map<string, string>()

  constructor(options: ContentOptions<T>) {
    this.#options = options
  }

  store(namespace?: string): ReflectedStore {
    return {
      put: (object) => this.#put(object),
      remove: ({ metadata }) => this.#drop(metadata.namespace ?? '', metadata.name),
      replace: (objects) => {
        const present = new Set(objects.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`))
        for (const key of [...this.#versions.keys()]) {
          const [space, name] = key.split('/') as [string, string]
          if ((!namespace || space === namespace) && !present.has(key)) this.#drop(space, name)
        }
        for (const object of objects) this.#put(object)
      },
    }
  }

  /** Tells whether the view's content is of the latest version that the watch has delivered. */
  isCurrent(namespace: string, name: string): boolean {
    const key = `${namespace}/${name}`
    return this.#versions.get(key) === this.#read.get(key)
  }

  /** Reads one into the view's map, or removes it from there if it doesn't exist. */
  async refresh(namespace: string, name: string): Promise<void> {
    const key = `${namespace}/${name}`
    const version = this.#versions.get(key)
    const { api, resource, project, into } = this.#options
    const object = await ignoreStatus(api.get<ContentObject>(resource, namespace, name), 404)
    const projected = object && (await project(object))
    // An object that the watch doesn't show may be gone by now without an event. It counts once the watch shows it.
    if (projected !== undefined && this.#versions.has(key)) into.set(key, projected)
    else into.delete(key)
    if (version === undefined) this.#read.delete(key)
    else this.#read.set(key, version)
  }

  #put({ metadata }: KubernetesObject): void {
    const { namespace = '', name, resourceVersion = '' } = metadata
    const key = `${namespace}/${name}`
    if (this.#versions.get(key) === resourceVersion) return
    this.#versions.set(key, resourceVersion)
    if (this.#options.isWanted(namespace, name)) this.#options.onChange(namespace, name)
  }

  #drop(namespace: string, name: string): void {
    const key = `${namespace}/${name}`
    if (!this.#versions.delete(key)) return
    this.#read.delete(key)
    this.#options.into.delete(key)
    if (this.#options.isWanted(namespace, name)) this.#options.onChange(namespace, name)
  }
}

/**
 * Makes something from a view, again until every Secret and ConfigMap that was read is of its latest version. `make`
 * also gets a set that collects them.
 */
export async function onCurrentContents<T>(
  view: ClusterView,
  contents: Contents,
  make: (view: ClusterView, seen: ReadonlySet<Dependency>) => T,
): Promise<T> {
  for (let round = 0; ; round++) {
    const seen = new Set<Dependency>()
    const made = make(trackedView(view, seen), seen)
    const outdated = listRefreshes(seen, contents)
    if (outdated.length === 0 || round === ROUNDS) return made
    await Promise.all(outdated.map((refresh) => refresh()))
  }
}

function listRefreshes(seen: ReadonlySet<Dependency>, contents: Contents): (() => Promise<void>)[] {
  const refreshes: (() => Promise<void>)[] = []
  for (const dependency of seen) {
    const { kind, namespace, name } = splitKey(dependency)
    const content = contents.get(kind)
    if (content && !content.isCurrent(namespace, name)) refreshes.push(() => content.refresh(namespace, name))
  }
  return refreshes
}

/** Keeps the keys of a Secret, each with a revision of its value, or the Secret's version without a revision key. */
function readPresence({ data = {}, metadata }: ContentObject, key: Buffer | undefined): SecretPresence {
  const { namespace, name, resourceVersion = '' } = metadata
  const computeRevision = (field: string, value: string) =>
    key ? hashRevision(key, `${namespace}/${name}/${field}`, value) : resourceVersion
  return { keys: new Map(Object.entries(data).map(([field, value]) => [field, computeRevision(field, value)])) }
}

/** Adds the metadata watches of Secrets and ConfigMaps. Returns the readers of referenced ones by kind. */
export function watchContents(options: ContentsOptions): Contents {
  const { api, world, watches } = options
  const buildOptions = (kind: string) => ({
    api,
    isWanted: (namespace: string, name: string) => options.isWanted(onObject(kind, namespace, name)),
    onChange: (namespace: string, name: string) => options.onChange(onObject(kind, namespace, name)),
  })
  const secrets = new ReferencedContent({
    ...buildOptions('Secret'),
    resource: SECRETS,
    into: world.secrets,
    project: async (object) => readPresence(object, await options.revisionKey()),
  })
  const configMaps = new ReferencedContent({
    ...buildOptions('ConfigMap'),
    resource: CONFIG_MAPS,
    into: world.configMaps,
    project: ({ data = {} }: ContentObject) => ({ data }),
  })
  watches.add({ resource: SECRETS, metadataOnly: true, createStore: (namespace) => secrets.store(namespace) })
  watches.add({ resource: CONFIG_MAPS, metadataOnly: true, createStore: (namespace) => configMaps.store(namespace) })
  return new Map<string, ReferencedContent<unknown>>([
    ['Secret', secrets],
    ['ConfigMap', configMaps],
  ])
}

const BYTES = 32
/** Several replicas may fill the Secret at the same time; the first wins. */
const TRIES = 5

interface KeyOptions {
  readonly api: ApiServer
  readonly place: { readonly namespace: string; readonly name: string }
  readonly log: Logger
}

/** Reads the key that makes revisions of values. Returns undefined if it isn't available. */
type ReadRevisionKey = () => Promise<Buffer | undefined>

/**
 * Makes the function that reads the key of an installation once; after a failure the next call tries again. Its first
 * reader fills the Secret, so that revisions survive a restart.
 */
export function createRevisionKeyReader(options: KeyOptions): ReadRevisionKey {
  let reading: Promise<Buffer | undefined> | undefined
  return () => {
    reading ??= readKey(options).catch((error) => {
      reading = undefined
      throw error
    })
    return reading
  }
}

async function readKey({ api, place: { namespace, name }, log }: KeyOptions): Promise<Buffer | undefined> {
  try {
    for (let tries = 0; tries < TRIES; tries++) {
      const { data, metadata } = await api.get<KubernetesObject & { readonly data?: { readonly key?: string } }>(
        SECRETS,
        namespace,
        name,
      )
      const key = Buffer.from(data?.key ?? '', 'base64')
      if (key.length >= BYTES) return key
      await fill(api, { ...metadata, namespace })
    }
    throw new Error(`Secret ${namespace}/${name} is changed repeatedly`)
  } catch (error) {
    if (!hasStatus(error, 403, 404)) throw error
    log.warn(
      { secret: `${namespace}/${name}`, error: String(error) },
      'the Secret with the operator’s key is missing: pods are rolled at every change of a Secret that they use',
    )
    return undefined
  }
}

async function fill(api: ApiServer, { namespace, name, resourceVersion }: KubernetesObject['metadata']): Promise<void> {
  const data = { key: randomBytes(BYTES).toString('base64') }
  await ignoreStatus(api.mergePatch(SECRETS, namespace ?? '', name, { metadata: { resourceVersion }, data }), 409)
}
