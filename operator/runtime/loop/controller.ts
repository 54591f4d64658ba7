import type { PooledKubeConfig } from '../../cluster/kubernetes/kube-config.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/index.ts'
import { Reviewer } from '../admission/reviewer.ts'
import { releaseAll } from '../removal/release.ts'
import { type Removal, RightsKeeper } from '../removal/removal.ts'
import { type OperatorMetrics, startMetrics } from '../report/metrics.ts'
import { kindStore, trimObject } from '../watch/kind-store.ts'
import { BaseOperator, type OnObject } from './base-operator.ts'
import { LeaderElection, type LeaseOptions } from './lease.ts'
import { createParts, type Parts, type PartsSettings } from './parts.ts'
import { work } from './reconciler.ts'

export interface ControllerOptions extends PartsSettings {
  readonly kubeConfig: PooledKubeConfig
  readonly workers: number
  /** Unique to the process: the holder of the lease and the instance of events. */
  readonly identity: string
  /** Absent if this process is alone and leads at once. */
  readonly lease?: Pick<LeaseOptions, 'namespace' | 'name' | 'duration' | 'renewDeadline' | 'retryPeriod'>
  /** Tells a process in a pod that its installation is being removed. Absent if another process may always follow. */
  readonly removal?: Removal
  /** Milliseconds to wait at a stop, for running reconciles and for finalizers. Both fit into the pod’s 20 s. */
  readonly grace?: number
}

/** The operator in a cluster: watches feed a world, changes become keys, workers reconcile while this process leads. */
export class PorticoOperator extends BaseOperator {
  readonly metrics: OperatorMetrics
  readonly #options: ControllerOptions
  readonly #parts: Parts
  readonly #election: LeaderElection | undefined
  readonly #rights: RightsKeeper | undefined
  readonly #workers: Promise<void>[] = []
  #synced = false
  #stopping: Promise<void> | undefined

  constructor(options: ControllerOptions) {
    const { kubeConfig, context, log, identity, removal, lease } = options
    super({ kubeConfig, group: context.group, log })
    this.#options = options
    const leading = () => this.leading
    this.#parts = createParts(options, {
      api: this.api,
      resources: this.resources,
      leading,
      assertLeading: () => this.assertLeading(),
      finalize: async (object, wanted) => {
        // The order matters: if a process ends in between, the rights stay unprotected as usual.
        if ((await this.finalize(object, wanted)) && wanted) await this.#rights?.keep()
      },
    })
    const { queue, watches, rollouts } = this.#parts
    this.metrics = startMetrics({ queue, watches, rollouts, objects: () => this.#managedObjects(), leading })
    this.api.onAnswer = this.metrics.asked
    const isHolding = () => this.#managedObjects().some(({ metadata }) => metadata.finalizers?.includes(this.finalizer))
    this.#rights = removal && new RightsKeeper({ ...removal, leading, isHolding, log })
    const onStarted = () => this.#enqueueAll()
    this.#election = lease && new LeaderElection({ ...lease, api: this.api, identity, log, onStarted })
  }

  override get leading(): boolean {
    return this.#election ? this.#election.leading : true
  }

  /** Resources that the API lacks, such as a kind whose CRD isn't installed. The operator manages all others. */
  get absent(): readonly string[] {
    return this.#parts.watches.absent
  }

  /** True once every watch has its first list. Otherwise it names what is missing. */
  get ready(): true | { reason: string } {
    if (this.#stopping) return { reason: 'stopping' }
    const { behind } = this.#parts.watches
    if (behind.length === 0 && this.#synced) return true
    return {
      reason: behind.map(({ name, failure }) => `${name}: ${failure || 'not listed yet'}`).join('; ') || 'starting',
    }
  }

  /** The number of reconciles so far, and whether none runs or is due now. */
  get work(): { readonly done: number; readonly isIdle: boolean } {
    const { queue, checks } = this.#parts
    return { done: queue.handled, isIdle: queue.depth + queue.working + checks.pending === 0 }
  }

  /** Returns the reviewer for the admission webhook, which works whether or not the process leads. */
  reviewer(): Reviewer {
    const { context, namespaces, log } = this.#options
    const { world, contents, checks, isManaged } = this.#parts
    return new Reviewer({
      isManaged,
      view: world.view,
      contents,
      checks,
      context,
      namespaces,
      isSynced: () => this.#synced,
      onReviewed: this.metrics.reviewed,
      log,
    })
  }

  /** Starts watches, election and workers. Settles once they run, whether or not the API server answers already. */
  override async start(): Promise<void> {
    const { watches } = this.#parts
    await super.start()
    watches.start()
    watches
      .synced()
      .then(() => this.#begin())
      .catch((error) => this.#options.log.error({ err: error }, 'the operator can’t start'))
  }

  /** Starts the election and the workers once the world is known. */
  #begin(): void {
    if (this.#stopping) return
    const { workers, log } = this.#options
    const { world, queue, observers, reconciler } = this.#parts
    const { metrics } = this
    const objects = world.objects.all()
    this.#synced = true
    log.info({ objects: objects.length }, 'watches are in sync')
    for (const { kind, metadata } of objects) observers.observe(kind, metadata.namespace ?? '', metadata.name)
    this.#election?.start()
    observers.start()
    this.#rights?.start()
    const leading = () => this.leading
    for (let count = 0; count < workers; count++) this.#workers.push(work({ queue, reconciler, leading, metrics, log }))
    this.#enqueueAll()
  }

  /** Stops taking work, waits for running reconciles and releases the lease. May be called twice. */
  override stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  protected override async init(): Promise<void> {
    const { due } = this.#parts
    for (const { group, version, plural } of this.resources.values())
      await this.watchResource(group, version, plural, async ({ type, object }) =>
        due.objectChanged(type, object as KubernetesObject),
      )
  }

  protected override addWatch(resource: Resource, onObject: OnObject): void {
    const { log } = this.#options
    const { watches, world, due, reconciler } = this.#parts
    const { isEcho } = reconciler
    const onChange: typeof due.wake = (dependency) => due.wake(dependency)
    const createStore = () => kindStore({ world, kind: resource.kind, log, onChange, isEcho, onObject })
    watches.add({ resource, keep: trimObject, createStore })
  }

  #managedObjects(): readonly KubernetesObject[] {
    const { world, isManaged } = this.#parts
    return world.objects.all().filter(isManaged)
  }

  #enqueueAll(): void {
    if (this.#synced) this.#parts.due.all()
  }

  /** If no process follows this one, removes our finalizer from the objects that this installation manages. */
  async #releaseAll(): Promise<void> {
    const { finalizer, api, resources } = this
    const held = { finalizer, isManaged: this.#parts.isManaged }
    await this.#rights?.releaseIfRemoved(() => releaseAll(api, resources.values(), this.#options.namespaces, held))
  }

  async #stop(): Promise<void> {
    const { grace = 8_000, log, kubeConfig } = this.#options
    const { queue, debounce, checks, observers, watches } = this.#parts
    const { leading } = this // Read now: a removal deletes the lease with the rest.
    debounce.close()
    queue.close()
    checks.close()
    this.metrics.close()
    const late = () => new Promise((resolve) => setTimeout(resolve, grace).unref())
    await Promise.race([Promise.all([...this.#workers, this.#rights?.stop()]), late()])
    if (leading) await Promise.race([this.#releaseAll(), late()])
    await observers.stop()
    await this.#election?.stop()
    await watches.stop()
    await kubeConfig.closePool()
    log.info('stopped')
  }
}
