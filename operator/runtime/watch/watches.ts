import type { Logger } from 'pino'
import type { ApiServer } from '../../cluster/kubernetes/api-server.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import { type ReflectedStore, Reflector, type ReflectorMetrics, type ReflectorOptions, Semaphore } from './reflector.ts'

export type WatchSettings = Pick<ReflectorOptions, 'pageSize' | 'watchSeconds' | 'idleLimit' | 'relistAfter'>

interface WatchesOptions {
  readonly api: ApiServer
  readonly namespaces: readonly string[]
  readonly settings: WatchSettings
  readonly log: Logger
}

interface Watched extends Pick<ReflectorOptions, 'labelSelector' | 'metadataOnly' | 'keep' | 'isOptional'> {
  readonly resource: Resource
  readonly createStore: (namespace?: string) => ReflectedStore
}

/** The number of list pages that are read at once. At a start every kind is listed. */
const PAGES_AT_ONCE = 2

/** All reflectors of a process, started and stopped together. */
export class Watches {
  readonly #options: WatchesOptions
  readonly #reflectors: Reflector[] = []
  readonly #pages = new Semaphore(PAGES_AT_ONCE)

  constructor(options: WatchesOptions) {
    this.#options = options
  }

  /** Adds a watch, one for each namespace. Call before `start`. */
  add({ resource, createStore, ...filter }: Watched): void {
    const { api, namespaces, settings, log } = this.#options
    const spaces = namespaces.length > 0 ? namespaces : [undefined]
    for (const namespace of spaces) {
      const store = createStore(namespace)
      this.#reflectors.push(
        new Reflector({
          api,
          resource,
          store,
          log,
          pages: this.#pages,
          ...filter,
          ...settings,
          ...(namespace ? { namespace } : {}),
        }),
      )
    }
  }

  start(): void {
    for (const reflector of this.#reflectors) reflector.start()
  }

  /** Settles once every first list is in its store. */
  async synced(): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.synced))
  }

  /** Names of watches that have not seen their first list, with the last failure. */
  get behind(): { name: string; failure: string }[] {
    return this.#reflectors
      .filter((reflector) => !reflector.hasSynced)
      .map((reflector) => ({ name: reflector.name, failure: reflector.lastFailure }))
  }

  /** Names of resources that the API should have but lacks: CRDs that aren't installed. */
  get absent(): string[] {
    return this.#reflectors.filter(({ isAbsent, isOptional }) => isAbsent && !isOptional).map(({ name }) => name)
  }

  get metrics(): { name: string; metrics: ReflectorMetrics }[] {
    return this.#reflectors.map((reflector) => ({ name: reflector.name, metrics: reflector.metrics }))
  }

  async stop(): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.stop()))
  }
}
