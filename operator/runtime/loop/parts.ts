import type { Logger } from 'pino'
import type { Backoff } from '../../../dataplane/retry/backoff.ts'
import type { ApiServer } from '../../cluster/kubernetes/api-server.ts'
import { childKinds } from '../../cluster/kubernetes/child-kinds.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import { createWorld, type KubernetesObject, type World } from '../../model/index.ts'
import { explainedPlan } from '../../reconcile/index.ts'
import type { ReconcileContext } from '../../reconcile/outcome/plan.ts'
import { isOfInstallation } from '../../render/object/object.ts'
import { Checks } from '../checks/checks.ts'
import { Applier } from '../children/applier.ts'
import { keptChild } from '../children/kept-child.ts'
import { isGoneOwner } from '../children/ownership.ts'
import { Observers } from '../pods/observers.ts'
import { keptPod } from '../pods/pod-cache.ts'
import { PODS, type ReadPodStatus } from '../pods/read-pod-status.ts'
import { Lull } from '../queue/lull.ts'
import { KeyedQueue } from '../queue/queue.ts'
import { EventRecorder } from '../report/event-recorder.ts'
import { Rollouts } from '../report/rollouts.ts'
import { type Contents, watchContents } from '../watch/contents.ts'
import { NAMESPACES, Namespaces } from '../watch/namespaces.ts'
import { revisionKeyIn } from '../watch/revision-key.ts'
import { Watches, type WatchSettings } from '../watch/watches.ts'
import { DueKeys } from './due-keys.ts'
import { Reconciler, type ReconcilerOptions } from './reconciler.ts'

/** What says how the parts work. */
export interface PartsSettings {
  readonly context: Omit<ReconcileContext, 'now'>
  /** Namespaces to look after; none means all. */
  readonly namespaces: readonly string[]
  /** Unique per process: the instance of events. */
  readonly identity: string
  /** Name of the installation of which objects are looked after; absent: those of none. */
  readonly installation?: string | undefined
  readonly log: Logger
  readonly watchSettings?: WatchSettings
  readonly backoff?: Backoff
  /** The Secret with the key by which changes of Secrets' values are told; absent: any change of one counts. */
  readonly revisionKey?: { readonly namespace: string; readonly name: string }
  /** How the status of a pod's data plane is read. */
  readonly readStatus: (api: ApiServer) => ReadPodStatus
}

/** What the parts ask of the process that they work in. */
interface Surroundings extends Pick<ReconcilerOptions, 'api' | 'assertLeading' | 'finalize'> {
  /** Resource of each kind of ours. */
  readonly resources: ReadonlyMap<string, Resource>
  readonly leading: () => boolean
}

/** What a loop works with: what is seen goes into the world, what has changed into the queue, and from there to the reconciler. */
export interface Parts {
  readonly world: World
  readonly queue: KeyedQueue
  readonly lull: Lull
  readonly watches: Watches
  readonly observers: Observers
  readonly contents: Contents
  readonly checks: Checks
  readonly reconciler: Reconciler
  readonly due: DueKeys
  readonly rollouts: Rollouts
  /** Whether an object is this installation's to look after; all others are there to be referred to. */
  readonly isLookedAfter: (object: KubernetesObject) => boolean
}

const MANAGED = 'app.kubernetes.io/managed-by=portico'

/** Makes the parts and ties them together. Every watch but those of our kinds is among them; nothing runs yet. */
export function createParts(settings: PartsSettings, surroundings: Surroundings): Parts {
  const { context, namespaces: lookedAfter, identity, log } = settings
  const { api, resources, assertLeading, leading } = surroundings
  const world = createWorld()
  const isLookedAfter = isOfInstallation(context.group, settings.installation)
  const queue = new KeyedQueue(settings.backoff)
  const lull = new Lull((key) => queue.add(key))
  const watches = new Watches({ api, namespaces: lookedAfter, settings: settings.watchSettings ?? {}, log })
  const namespaces = new Namespaces(api)
  const observers = new Observers({
    api,
    world,
    group: context.group,
    readStatus: settings.readStatus(api),
    leading,
    isLookedAfter,
    log,
    onChild: (child) => due.childChanged(child),
    onChange: (dependency) => due.wake(dependency),
  })
  const contents = watchContents({
    api,
    world,
    watches,
    revisionKey: settings.revisionKey
      ? revisionKeyIn({ api, place: settings.revisionKey, log })
      : () => Promise.resolve(undefined),
    isWanted: (dependency) => reconciler.graph.has(dependency),
    onChange: (dependency) => due.contentChanged(dependency),
  })
  const rollouts = new Rollouts({
    group: context.group,
    image: context.image,
    ownerOf: (kind, namespace, name) => world.objects.get(kind, namespace, name),
  })
  const checks = new Checks({ log })
  const reconciler = new Reconciler({
    ...surroundings,
    world,
    isLookedAfter,
    explainedPlan,
    context,
    applier: new Applier({
      api,
      children: observers.children,
      group: context.group,
      namespaces,
      log,
      assertLeading,
      onWritten: (write) => rollouts.written(write),
      isGone: (owner, namespace) => isGoneOwner(owner, namespace, resources, world),
    }),
    events: new EventRecorder(api, `${context.group}/operator`, identity, log),
    namespaces,
    contents,
    checks,
    onChecked: (key) => queue.add(key),
    log,
  })
  const isOurs = (kind: string) => resources.has(kind)
  const due = new DueKeys({ queue, lull, world, graph: reconciler.graph, observers, isOurs, log })
  watchChildren(watches, observers)
  // Who looks after some namespaces only may not watch them.
  if (lookedAfter.length === 0)
    watches.add({ resource: NAMESPACES, metadataOnly: true, storeOf: () => namespaces.store })
  return { world, queue, lull, watches, observers, contents, checks, reconciler, due, rollouts, isLookedAfter }
}

/** Adds the watches of what the operator has made, and of the pods of that. */
function watchChildren(watches: Watches, { children, pods }: Observers): void {
  for (const resource of childKinds) {
    const storeOf = (namespace?: string) => children.store(resource.kind, namespace)
    const isOptional = resource.wayOut !== undefined
    watches.add({ resource, isOptional, labelSelector: MANAGED, keep: keptChild, storeOf })
  }
  watches.add({
    resource: PODS,
    labelSelector: MANAGED,
    keep: keptPod,
    storeOf: (namespace) => pods.store(namespace),
  })
}
