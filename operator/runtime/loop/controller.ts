import type { ResourceEvent } from '@dot-i/k8s-operator'
import type { Logger } from 'pino'
import type { KindDeclaration } from '../../../crds/define.ts'
import { kinds } from '../../../crds/index.ts'
import type { Backoff } from '../../../dataplane/retry/backoff.ts'
import type { ApiServer } from '../../cluster/kubernetes/api-server.ts'
import { childKinds } from '../../cluster/kubernetes/child-kinds.ts'
import type { PooledKubeConfig } from '../../cluster/kubernetes/kube-config.ts'
import { createWorld, type KubernetesObject } from '../../model/index.ts'
import { reconcile } from '../../reconcile/index.ts'
import type { Reconcile, ReconcileContext } from '../../reconcile/outcome/plan.ts'
import { Reviewer } from '../admission/reviewer.ts'
import { Applier } from '../children/applier.ts'
import { controllerOf } from '../children/child-cache.ts'
import { isGoneOwner } from '../children/ownership.ts'
import { type WorkloadName, workloadOf } from '../children/workload-labels.ts'
import { keptPod } from '../pods/kept-pod.ts'
import { Observers } from '../pods/observers.ts'
import { PODS, type ReadPodStatus } from '../pods/read-pod-status.ts'
import { keyOf, partsOf } from '../queue/keys.ts'
import { KeyedQueue } from '../queue/queue.ts'
import type { Removal } from '../removal/removal.ts'
import { EventRecorder } from '../report/event-recorder.ts'
import { type OperatorMetrics, startMetrics } from '../report/metrics.ts'
import type { Contents } from '../watch/current-contents.ts'
import type { Dependency } from '../watch/dependencies.ts'
import { keptChild, keptObject } from '../watch/kept.ts'
import { kindStore } from '../watch/kind-store.ts'
import { Namespaces } from '../watch/namespaces.ts'
import { watchContents } from '../watch/watch-contents.ts'
import { Watches, type WatchSettings } from '../watch/watches.ts'
import { BaseOperator, eventOf } from './base-operator.ts'
import { LeaderElection, type LeaseOptions } from './lease.ts'
import { Reconciler } from './reconciler.ts'
import { work } from './work.ts'

export interface ControllerOptions {
  readonly kubeConfig: PooledKubeConfig
  readonly context: Omit<ReconcileContext, 'now'>
  /** Namespaces to look after; none means all. */
  readonly namespaces: readonly string[]
  readonly workers: number
  /** Unique per process: the holder of the lease, the instance of events. */
  readonly identity: string
  /** Absent: this process is alone and leads at once. */
  readonly lease?: Pick<LeaseOptions, 'namespace' | 'name' | 'duration' | 'renewDeadline' | 'retryPeriod'>
  readonly log: Logger
  readonly watchSettings?: WatchSettings
  readonly backoff?: Backoff
  /** How the status of a pod's data plane is read. */
  readonly readStatus: (api: ApiServer) => ReadPodStatus
  /** In a pod: how it is known that the installation goes. Absent: somebody may always follow. */
  readonly removal?: Removal
  /** Milliseconds to wait at a stop: for reconciles in flight, and for letting go. Both fit into the pod’s 20 s. */
  readonly grace?: number
}

/** Children whose status tells how their workload stands. */
const OBSERVED = new Set(['Deployment', 'StatefulSet', 'HTTPRoute'])

const MANAGED = 'app.kubernetes.io/managed-by=portico'

/** The operator in a cluster: watches feed a world, changes become keys, workers reconcile keys while the lease is ours. */
export class PorticoOperator extends BaseOperator {
  readonly metrics: OperatorMetrics
  readonly #options: ControllerOptions
  readonly #world = createWorld()
  readonly #queue: KeyedQueue
  readonly #watches: Watches
  readonly #contents: Contents
  readonly #reconciler: Reconciler
  readonly #observers: Observers
  readonly #election: LeaderElection | undefined
  readonly #workers: Promise<void>[] = []
  #synced = false
  #stopping: Promise<void> | undefined

  constructor(options: ControllerOptions) {
    const { kubeConfig, context, log, identity, removal } = options
    super({ kubeConfig, group: context.group, log, removal })
    this.#options = options
    this.#queue = new KeyedQueue(options.backoff)
    this.#watches = new Watches({
      api: this.api,
      namespaces: options.namespaces,
      settings: options.watchSettings ?? {},
      log,
    })
    this.#observers = new Observers({
      api: this.api,
      world: this.#world,
      group: context.group,
      readStatus: options.readStatus(this.api),
      leading: () => this.leading,
      log,
      onChild: (child) => this.#childChanged(child),
      onChange: (dependency) => this.#wake(dependency),
    })
    this.#contents = watchContents({
      api: this.api,
      world: this.#world,
      watches: this.#watches,
      isWanted: (dependency) => this.#reconciler.graph.has(dependency),
      onChange: (dependency) => this.#contentChanged(dependency),
    })
    const assertLeading = () => this.assertLeading()
    const namespaces = new Namespaces(this.api)
    this.#reconciler = new Reconciler({
      api: this.api,
      world: this.#world,
      resources: this.resources,
      reconcile: reconcile as Reconcile<KindDeclaration>,
      context,
      applier: new Applier({
        api: this.api,
        children: this.#observers.children,
        group: context.group,
        namespaces,
        log,
        assertLeading,
        isGone: (owner, namespace) => isGoneOwner(owner, namespace, this.resources, this.#world),
      }),
      events: new EventRecorder(this.api, `${context.group}/operator`, identity, log),
      namespaces,
      contents: this.#contents,
      assertLeading,
      finalize: (object, wanted) => this.finalize(object, wanted),
      log,
    })
    this.metrics = startMetrics({
      queue: this.#queue,
      watches: this.#watches,
      objects: () => this.#world.objects.all(),
      leading: () => this.leading,
    })
    this.api.onAnswer = this.metrics.asked
    this.#election =
      options.lease &&
      new LeaderElection({
        ...options.lease,
        api: this.api,
        identity,
        log,
        onStarted: () => this.#enqueueAll(),
      })
  }

  override get leading(): boolean {
    return this.#election ? this.#election.leading : true
  }

  /** Resources that the API doesn't have, such as a kind whose CRD isn't installed: all else is looked after. */
  get absent(): readonly string[] {
    return this.#watches.absent
  }

  /** True once every watch has its first list; otherwise what is missing. */
  get ready(): true | { reason: string } {
    if (this.#stopping) return { reason: 'stopping' }
    const behind = this.#watches.behind
    if (behind.length === 0 && this.#synced) return true
    return {
      reason: behind.map(({ name, failure }) => `${name}: ${failure || 'not listed yet'}`).join('; ') || 'starting',
    }
  }

  /** What answers an admission webhook: by this process's own view, whether or not it leads. */
  reviewer(): Reviewer {
    const { context, namespaces, log } = this.#options
    const { view } = this.#world
    return new Reviewer({
      view,
      contents: this.#contents,
      context,
      namespaces,
      isSynced: () => this.#synced,
      onReviewed: this.metrics.reviewed,
      log,
    })
  }

  /** Starts watches, election and workers; settles once they run, whether or not the API server answers already. */
  override async start(): Promise<void> {
    await super.start()
    this.#watches.start()
    this.#watches
      .synced()
      .then(() => this.#begin())
      .catch((error) => this.#options.log.error({ err: error }, 'work can’t begin'))
  }

  /** The world is known: looks for a leader, and works. */
  #begin(): void {
    if (this.#stopping) return
    this.#synced = true
    this.#options.log.info({ objects: this.#world.objects.all().length }, 'watches are in sync')
    for (const { kind, metadata } of this.#world.objects.all())
      this.#observers.observe(kind, metadata.namespace ?? '', metadata.name)
    this.#election?.start()
    this.#observers.start()
    this.keepRights()
    const { workers, log } = this.#options
    for (let count = 0; count < workers; count++)
      this.#workers.push(
        work({
          queue: this.#queue,
          reconciler: this.#reconciler,
          leading: () => this.leading,
          metrics: this.metrics,
          log,
        }),
      )
    this.#enqueueAll()
  }

  /** Stops taking work, waits for what is in flight, gives the lease back. May be called twice. */
  override stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  protected override async init(): Promise<void> {
    for (const { group, version, plural } of this.resources.values()) {
      await this.watchResource(group, version, plural, async ({ meta }) => {
        this.#queue.add(keyOf(meta.kind, meta.namespace ?? '', meta.name))
      })
    }
    for (const resource of childKinds) {
      const storeOf = (namespace?: string) => this.#observers.children.store(resource.kind, namespace)
      const isOptional = resource.wayOut !== undefined
      this.#watches.add({ resource, isOptional, labelSelector: MANAGED, keep: keptChild, storeOf })
    }
    const storeOf = (namespace?: string) => this.#observers.pods.store(namespace)
    this.#watches.add({ resource: PODS, labelSelector: MANAGED, keep: keptPod, storeOf })
  }

  /** Feeds a watch of one of our kinds into the world; `onEvent` gets every object that came, changed or went. */
  protected override async watchResource(
    group: string,
    version: string,
    plural: string,
    onEvent: (event: ResourceEvent) => Promise<void>,
  ): Promise<void> {
    const resource = [...this.resources.values()].find((known) => known.plural === plural && known.group === group)
    if (!resource) throw new TypeError(`not a kind of ours: ${plural}.${version}.${group}`)
    const { log } = this.#options
    const storeOf = () =>
      kindStore({
        world: this.#world,
        kind: resource.kind,
        log,
        onChange: (dependency) => this.#wake(dependency),
        onObject: (type, object) => {
          onEvent(eventOf(plural, type, object)).catch((error) => log.error({ err: error }, 'an event is lost'))
        },
      })
    this.#watches.add({ resource, keep: keptObject, storeOf })
  }

  #wake(dependency: Dependency): void {
    for (const key of this.#reconciler.graph.dependents(dependency)) this.#queue.add(key)
  }

  /** A Secret or ConfigMap has changed: whoever has read it is due, and pods that mount it get it now. */
  #contentChanged(dependency: Dependency): void {
    for (const key of this.#reconciler.graph.dependents(dependency)) {
      this.#queue.add(key)
      if (roleOf(partsOf(key).kind) === 'workload')
        this.#observers.delivery
          .touch(key)
          .catch((error) => this.#options.log.error({ err: error }, 'pods are not touched'))
    }
  }

  #enqueueAll(): void {
    if (!this.#synced) return
    for (const { kind, metadata } of this.#world.objects.all()) {
      const key = keyOf(kind, metadata.namespace ?? '', metadata.name)
      this.#queue.add(key)
      if (roleOf(kind) === 'workload') this.#observers.delivery.check(key)
    }
  }

  /** A child wakes its owner, and whoever its labels say that it belongs to: the owner reference may be gone. */
  #childChanged(child: KubernetesObject): void {
    const owner = controllerOf(child)
    const { namespace = '' } = child.metadata
    const labelled = workloadOf(child.metadata)
    if (owner && this.resources.has(owner.kind)) this.#childOf(child, { kind: owner.kind, namespace, name: owner.name })
    if (labelled && (labelled.kind !== owner?.kind || labelled.name !== owner.name)) this.#childOf(child, labelled)
  }

  #childOf(child: KubernetesObject, { kind, namespace, name }: WorkloadName): void {
    if (OBSERVED.has(child.kind)) this.#observers.observe(kind, namespace, name)
    const key = keyOf(kind, namespace, name)
    if (child.kind === 'ConfigMap') this.#observers.delivery.check(key)
    this.#queue.add(key)
  }

  protected override isAnyHeld(finalizer: string): boolean {
    return this.#world.objects.all().some(({ metadata }) => metadata.finalizers?.includes(finalizer))
  }

  async #stop(): Promise<void> {
    const { grace = 8_000, log, namespaces } = this.#options
    const { leading } = this // Later it may not be: in a removal the lease goes with the rest.
    super.stop()
    this.#queue.close()
    this.metrics.close()
    const late = () => new Promise((resolve) => setTimeout(resolve, grace).unref())
    await Promise.race([Promise.all([...this.#workers, this.stopKeepingRights()]), late()])
    if (leading) await Promise.race([this.letGo(namespaces), late()])
    await this.#observers.stop()
    await this.#election?.stop()
    await this.#watches.stop()
    await this.#options.kubeConfig.closePool()
    log.info('stopped')
  }
}

const roleOf = (kind: string) => kinds[kind as keyof typeof kinds].role
