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
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/index.ts'
import { VERSION } from '../../render/object/object.ts'
import { finalizerName } from '../queue/keys.ts'
import { takeFinalizer } from '../removal/release.ts'
import { NotLeadingError } from './reconciler.ts'

// The package is CommonJS: its class is the default of the default.
const Operator = operatorPackage.default

const FINALIZER_MANAGER = 'portico-finalizer'

interface BaseOptions {
  readonly kubeConfig: PooledKubeConfig
  readonly group: string
  readonly log: Logger
}

/** Gets every object of a kind that came, changed or went. */
export type OnObject = (type: ResourceEventType, object: KubernetesObject) => void

/**
 * The base class of @dot-i/k8s-operator, over our own client and watches. The loop uses three things of it. Life cycle:
 * `start` runs `init`, which asks `watchResource` for each kind. Resource events: `watchResource` hands on what our watch of
 * the kind has seen, as the package's events, and `due` makes keys of them. Finalizers: `handleResourceFinalizer` decides
 * whether ours is added, taken away or left, and `setResourceFinalizers` writes that.
 *
 * The rest is not used. The package's watch ends the process at an error, and lists everything anew each time a stream ends.
 * Its queue takes one event of all objects at a time, where ours has workers, waits and one key an object. Its `stop` ends
 * only its own watches. Its requests log errors instead of throwing them, ignore the lease, write over the finalizers and
 * statuses of others, and open a connection each; so none of them is sent, and the bundle leaves out the client for them
 * (build/patches/kubernetes-client.ts).
 */
export abstract class BaseOperator extends Operator {
  protected readonly api: ApiServer
  /** Our kinds. */
  protected readonly resources: ReadonlyMap<string, Resource>
  protected readonly finalizer: string
  readonly #log: Logger

  constructor({ kubeConfig, group, log }: BaseOptions) {
    super({
      debug: (message) => log.debug(message),
      info: (message) => log.info(message),
      warn: (message) => log.warn(message),
      error: (message) => log.error(message),
    })
    this.kubeConfig = kubeConfig
    this.api = new ApiServer(kubeConfig, 'portico-operator')
    this.resources = new Map(
      Object.values(kinds).map(({ kind, plural }) => [kind, { group, version: VERSION, plural, kind }]),
    )
    this.finalizer = finalizerName(group)
    this.#log = log
  }

  /** Whether writes are ours to make. */
  abstract get leading(): boolean

  /** Adds the watch of one of our kinds, to be started later. */
  protected abstract addWatch(resource: Resource, onObject: OnObject): void

  protected assertLeading(): void {
    if (!this.leading) throw new NotLeadingError('the lease is not ours')
  }

  protected override async watchResource(
    group: string,
    version: string,
    plural: string,
    onEvent: (event: ResourceEvent) => Promise<void>,
  ): Promise<void> {
    const resource = [...this.resources.values()].find((known) => known.plural === plural && known.group === group)
    if (!resource) throw new TypeError(`not a kind of ours: ${plural}.${version}.${group}`)
    this.addWatch(resource, (type, object) => {
      const event = { meta: ResourceMetaImpl.createWithPlural(plural, object as never), type, object: object as never }
      onEvent(event).catch((error) => this.#log.error({ err: error }, 'an event is lost'))
    })
  }

  /** Adds or takes away our finalizer where it is not as it should be; gives whether it was written. */
  protected async finalize(object: KubernetesObject, wanted: boolean): Promise<boolean> {
    const { finalizers = [], deletionTimestamp } = object.metadata
    const present = finalizers.includes(this.finalizer)
    if (present === wanted || (wanted && deletionTimestamp)) return false
    // The state machine writes into the object that it is handed. Its `id` is what our write asks for: the uid.
    const copy = structuredClone(object) as never
    const meta = ResourceMetaImpl.createWithId(object.metadata.uid ?? '', copy)
    const event: ResourceEvent = { meta, type: ResourceEventType.Modified, object: copy }
    const cleanUp = async () => {
      // The plan no longer wants the finalizer because nothing is left to clean up.
    }
    // The package knows no finalizer that is taken off an object which stays.
    if (wanted || deletionTimestamp) await this.handleResourceFinalizer(event, this.finalizer, cleanUp)
    else await this.setResourceFinalizers(meta, [])
    return true
  }

  /** Our finalizer alone, under a field manager of its own: finalizers of others are left alone. */
  protected override async setResourceFinalizers(meta: ResourceMeta, finalizers: string[]): Promise<void> {
    const resource = this.resources.get(meta.kind) as Resource
    const ours = finalizers.filter((finalizer) => finalizer === this.finalizer)
    this.assertLeading()
    const { name, namespace = '' } = meta
    if (ours.length === 0) return takeFinalizer(this.api, resource, { name, namespace, uid: meta.id }, this.finalizer)
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
}
