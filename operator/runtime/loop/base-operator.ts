import operatorPackage, {
  type ResourceEvent,
  ResourceEventType,
  type ResourceMeta,
  ResourceMetaImpl,
} from '@dot-i/k8s-operator'
import type { Logger } from 'pino'
import { kinds } from '../../../crds/index.ts'
import { ApiError, ApiServer, isNotFound } from '../../cluster/kubernetes/api-server.ts'
import type { PooledKubeConfig } from '../../cluster/kubernetes/kube-config.ts'
import { pathOf, type Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/index.ts'
import { VERSION } from '../../render/object/object.ts'
import { finalizerName } from '../queue/keys.ts'
import { releaseAll, takeFinalizer } from '../removal/release.ts'
import { letGo, type Removal } from '../removal/removal.ts'
import { RightsKeeper } from '../removal/rights-keeper.ts'
import { NotLeadingError } from './reconciler.ts'

// The package is CommonJS: its class is the default of the default.
const Operator = operatorPackage.default

const FINALIZER_MANAGER = 'portico-finalizer'

interface BaseOptions {
  readonly kubeConfig: PooledKubeConfig
  readonly group: string
  readonly log: Logger
  readonly removal?: Removal | undefined
}

/**
 * The base class of @dot-i/k8s-operator as we use it: its life cycle and its finalizer state machine, over our own client
 * and only while the lease is ours. Its watch (which ends the process on an error), its queue and its status requests
 * are not used.
 */
export abstract class BaseOperator extends Operator {
  protected readonly api: ApiServer
  /** Our kinds. */
  protected readonly resources: ReadonlyMap<string, Resource>
  readonly #finalizer: string
  readonly #removal: Removal | undefined
  readonly #keeper: RightsKeeper | undefined
  readonly #log: Logger

  constructor({ kubeConfig, group, log, removal }: BaseOptions) {
    super(operatorLogger(log))
    this.kubeConfig = kubeConfig
    this.api = new ApiServer(kubeConfig, 'portico-operator')
    this.resources = new Map(
      Object.values(kinds).map(({ kind, plural }) => [kind, { group, version: VERSION, plural, kind }]),
    )
    this.#finalizer = finalizerName(group)
    this.#log = log
    this.#removal = removal
    this.#keeper =
      removal &&
      new RightsKeeper({
        ...removal,
        leading: () => this.leading,
        isHolding: () => this.isAnyHeld(this.#finalizer),
        log,
      })
  }

  /** Whether any object that we look after has this finalizer. */
  protected abstract isAnyHeld(finalizer: string): boolean

  /** Whether writes are ours to make. */
  abstract get leading(): boolean

  protected assertLeading(): void {
    if (!this.leading) throw new NotLeadingError('the lease is not ours')
  }

  /** Adds or takes away our finalizer where it is not as it should be, by the base class's state machine. */
  protected async finalize(object: KubernetesObject, wanted: boolean): Promise<void> {
    const { finalizers = [], deletionTimestamp } = object.metadata
    const present = finalizers.includes(this.#finalizer)
    if (present === wanted || (wanted && deletionTimestamp)) return
    // The state machine writes into the object that it is handed. Its `id` is what our write asks for: the uid.
    const copy = structuredClone(object) as never
    const meta = ResourceMetaImpl.createWithId(object.metadata.uid ?? '', copy)
    const event: ResourceEvent = { meta, type: ResourceEventType.Modified, object: copy }
    const cleanUp = async () => {
      // The plan no longer wants the finalizer because nothing is left to clean up.
    }
    if (wanted || deletionTimestamp) await this.handleResourceFinalizer(event, this.#finalizer, cleanUp)
    else await this.setResourceFinalizers(event.meta, [])
    // After it, not before: a process that ends in between leaves rights that go as ever.
    if (wanted) await this.#keeper?.keep()
  }

  protected keepRights(): void {
    this.#keeper?.start()
  }

  /** At the end: where nobody follows, lets go of those objects that our finalizer holds in these namespaces or in all. */
  protected async letGo(
    namespaces: readonly string[],
    isLookedAfter: (object: KubernetesObject) => boolean,
  ): Promise<void> {
    const keeper = this.#keeper
    if (!keeper || !this.#removal) return
    const { isRemoved } = this.#removal
    const held = { finalizer: this.#finalizer, isMeant: isLookedAfter }
    const release = async () => (await releaseAll(this.api, this.resources.values(), namespaces, held)).length
    await letGo({
      // In this order: what else says so may not be readable any more.
      isRemoved: async () => (await keeper.isGoing()) || (await isRemoved()),
      release,
      releaseRights: () => keeper.release(),
      log: this.#log,
    })
  }

  protected async stopKeepingRights(): Promise<void> {
    await this.#keeper?.stop()
  }

  /** Our finalizer alone, under a field manager of its own: finalizers of others are left alone. */
  protected override async setResourceFinalizers(meta: ResourceMeta, finalizers: string[]): Promise<void> {
    const resource = this.resources.get(meta.kind) as Resource
    const ours = finalizers.filter((finalizer) => finalizer === this.#finalizer)
    this.assertLeading()
    const { name, namespace = '' } = meta
    if (ours.length === 0) return takeFinalizer(this.api, resource, { name, namespace, uid: meta.id }, this.#finalizer)
    const object = {
      apiVersion: meta.apiVersion,
      kind: meta.kind,
      metadata: { name, namespace, uid: meta.id, finalizers: ours },
    }
    try {
      await this.api.apply(resource, object, FINALIZER_MANAGER)
    } catch (error) {
      // Gone, or another one of its name: without the uid an apply would make it anew.
      if (!isNotFound(error) && !(error instanceof ApiError && error.status === 409)) throw error
    }
  }

  /** Where the base class sends what we don't replace. */
  protected override getCustomResourceApiUri(
    group: string,
    version: string,
    plural: string,
    namespace?: string,
  ): string {
    const server = this.kubeConfig.getCurrentCluster()?.server ?? ''
    return server + pathOf({ group, version, plural, kind: '' }, namespace)
  }
}

/** A change of an object as the base class reports it. */
export function eventOf(plural: string, type: ResourceEventType, object: KubernetesObject): ResourceEvent {
  return { meta: ResourceMetaImpl.createWithPlural(plural, object as never), type, object: object as never }
}

const operatorLogger = (log: Logger) => ({
  debug: (message: string) => log.debug(message),
  info: (message: string) => log.info(message),
  warn: (message: string) => log.warn(message),
  error: (message: string) => log.error(message),
})
