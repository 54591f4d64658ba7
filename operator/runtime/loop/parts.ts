import type { Logger } from 'pino'
import type { Backoff } from '../../../dataplane/retry/backoff.ts'
import type { ApiServer } from '../../cluster/kubernetes/api-server.ts'
import { childKinds, type Resource } from '../../cluster/kubernetes/resource.ts'
import { createWorld } from '../../model/index.ts'
import { explainedPlan } from '../../reconcile/index.ts'
import type { ReconcileContext } from '../../reconcile/outcome/plan.ts'
import { isOfInstallation } from '../../render/object/object.ts'
import { Checks } from '../checks/checks.ts'
import { Applier } from '../children/applier.ts'
import { trimChild } from '../children/child-cache.ts'
import { isGoneOwner } from '../children/ownership.ts'
import { Observers } from '../pods/observers.ts'
import { trimPod } from '../pods/pod-cache.ts'
import { PODS, type ReadPodStatus } from '../pods/read-pod-status.ts'
import { Debounce } from '../queue/debounce.ts'
import { KeyedQueue } from '../queue/queue.ts'
import { EventRecorder } from '../report/event-recorder.ts'
import { Rollouts } from '../report/rollouts.ts'
import { createRevisionKeyReader, watchContents } from '../watch/contents.ts'
import { NAMESPACES, Namespaces } from '../watch/namespaces.ts'
import { Watches, type WatchSettings } from '../watch/watches.ts'
import { DueKeys } from './due-keys.ts'
import { Reconciler, type ReconcilerOptions } from './reconciler.ts'

export interface PartsSettings {
  readonly context: Omit<ReconcileContext, 'now'>
  readonly namespaces: readonly string[]
  readonly identity: string
  /** The name of the installation whose objects are managed. Absent: objects that name no installation. */
  readonly installation?: string | undefined
  readonly log: Logger
  readonly watchSettings?: WatchSettings
  readonly backoff?: Backoff
  /** The Secret with the key that makes revisions of Secret values. Absent: any change of a Secret counts. */
  readonly revisionKey?: { readonly namespace: string; readonly name: string }
  /** Returns the function that reads the status of a pod's data plane. */
  readonly readStatus: (api: ApiServer) => ReadPodStatus
}

interface Surroundings extends Pick<ReconcilerOptions, 'api' | 'assertLeading' | 'finalize'> {
  readonly resources: ReadonlyMap<string, Resource>
  readonly leading: () => boolean
}

/**
 * The parts of a loop. Watches feed the world, changes go into the queue, and the reconciler takes keys from it. Objects
 * that this installation does not manage (`isManaged`) exist only as targets of references.
 */
export type Parts = ReturnType<typeof createParts>

const MANAGED = 'app.kubernetes.io/managed-by=portico'

/** Creates and connects the parts, with every watch except those of our kinds. Nothing runs yet. */
export function createParts(settings: PartsSettings, surroundings: Surroundings) {
  const { context, namespaces: managedNamespaces, identity, log } = settings
  const { api, resources, assertLeading, leading } = surroundings
  const world = createWorld()
  const isManaged = isOfInstallation(context.group, settings.installation)
  const queue = new KeyedQueue(settings.backoff)
  const debounce = new Debounce((key) => queue.add(key))
  const watches = new Watches({ api, namespaces: managedNamespaces, settings: settings.watchSettings ?? {}, log })
  const namespaces = new Namespaces(api)
  const observers = new Observers({
    api,
    world,
    group: context.group,
    readStatus: settings.readStatus(api),
    leading,
    isManaged,
    log,
    onChild: (child) => due.childChanged(child),
    onChange: (dependency) => due.wake(dependency),
  })
  const contents = watchContents({
    api,
    world,
    watches,
    revisionKey: settings.revisionKey
      ? createRevisionKeyReader({ api, place: settings.revisionKey, log })
      : () => Promise.resolve(undefined),
    isWanted: (dependency) => reconciler.graph.has(dependency),
    onChange: (dependency) => due.contentChanged(dependency),
  })
  const rollouts = new Rollouts({
    group: context.group,
    image: context.image,
    findOwner: (kind, namespace, name) => world.objects.get(kind, namespace, name),
  })
  const checks = new Checks({ log })
  const reconciler = new Reconciler({
    ...surroundings,
    world,
    isManaged,
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
  const due = new DueKeys({ queue, debounce, world, graph: reconciler.graph, observers, isOurs, log })
  watchChildren(watches, observers)
  // An operator for some namespaces only may not watch them.
  if (managedNamespaces.length === 0)
    watches.add({ resource: NAMESPACES, metadataOnly: true, createStore: () => namespaces.store })
  return { world, queue, debounce, watches, observers, contents, checks, reconciler, due, rollouts, isManaged }
}

/** Adds the watches of the operator's children and of their pods. */
function watchChildren(watches: Watches, { children, pods }: Observers): void {
  for (const resource of childKinds) {
    const createStore = (namespace?: string) => children.store(resource.kind, namespace)
    const isOptional = resource.wayOut !== undefined
    watches.add({ resource, isOptional, labelSelector: MANAGED, keep: trimChild, createStore })
  }
  watches.add({
    resource: PODS,
    labelSelector: MANAGED,
    keep: trimPod,
    createStore: (namespace) => pods.store(namespace),
  })
}
