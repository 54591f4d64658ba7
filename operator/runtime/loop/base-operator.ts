import operatorPackage, {
  type ResourceEvent,
  ResourceEventType,
  type ResourceMeta,
  ResourceMetaImpl,
} from '@dot-i/k8s-operator'
import type { Logger } from 'pino'
import { kinds } from '../../../crds/index.ts'
import { ApiServer, ignoreStatus } from '../../cluster/kubernetes/api-server.ts'
import type { PooledKubeConfig } from '../../cluster/kubernetes/kube-config.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/index.ts'
import { VERSION } from '../../render/object/object.ts'
import { formatFinalizerName } from '../queue/queue.ts'
import { takeFinalizer } from '../removal/release.ts'
import { NotLeadingError } from './reconciler.ts'

// The package is CommonJS, so its class is the default of the default.
const Operator = operatorPackage.default

const FINALIZER_MANAGER = 'portico-finalizer'

interface BaseOptions {
  readonly kubeConfig: PooledKubeConfig
  readonly group: string
  readonly log: Logger
}

/** Receives every object of a kind that came, changed or went. */
export type OnObject = (type: ResourceEventType, object: KubernetesObject) => void

/**
 * The base class of @dot-i/k8s-operator, on our own client and watches. The loop uses its life cycle (`start` runs
 * `init`, which calls `watchResource` for each kind), its resource events (which `due` turns into keys) and its
 * finalizers (`handleResourceFinalizer`, `setResourceFinalizers`). The rest is unused: its watch ends the process at an
 * error and lists everything each time a stream ends, its queue handles one event at a time, and its requests log
 * errors instead of throwing them, ignore the lease, overwrite others' finalizers and statuses, and open a connection
 * each. The bundle leaves out their client (build/patches/index.ts).
 */
export abstract class BaseOperator extends Operator {
  protected readonly api: ApiServer
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
    this.finalizer = formatFinalizerName(group)
    this.#log = log
  }

  /** True while this process may write. */
  abstract get leading(): boolean

  /** Adds the watch of one of our kinds, to be started later. */
  protected abstract addWatch(resource: Resource, onObject: OnObject): void

  protected assertLeading(): void {
    if (!this.leading) throw new NotLeadingError('this process does not hold the lease')
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
      onEvent(event).catch((error) => this.#log.error({ err: error }, 'an event could not be written'))
    })
  }

  /** Adds or removes our finalizer if needed. Returns whether it was written. */
  protected async finalize(object: KubernetesObject, wanted: boolean): Promise<boolean> {
    const { finalizers = [], deletionTimestamp } = object.metadata
    const present = finalizers.includes(this.finalizer)
    if (present === wanted || (wanted && deletionTimestamp)) return false
    // The state machine writes into the object that it gets. Its `id` is the uid that our write names.
    const copy = structuredClone(object) as never
    const meta = ResourceMetaImpl.createWithId(object.metadata.uid ?? '', copy)
    const event: ResourceEvent = { meta, type: ResourceEventType.Modified, object: copy }
    const cleanUp = async () => {
      // The plan no longer wants the finalizer because nothing is left to clean up.
    }
    // The package can't remove a finalizer from an object that stays.
    if (wanted || deletionTimestamp) await this.handleResourceFinalizer(event, this.finalizer, cleanUp)
    else await this.setResourceFinalizers(meta, [])
    return true
  }

  /** Writes our finalizer alone, under its own field manager, and leaves the finalizers of others alone. */
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
    // The object may be gone, or another one has its name. Without the uid an apply would create it again.
    await ignoreStatus(this.api.apply(resource, object, FINALIZER_MANAGER), 404, 409)
  }
}
