import type { Logger } from 'pino'
import type { KindDeclaration, ObjectOf } from '../../crds/define.ts'
import { ApiError, type ApiServer, isNotFound } from '../cluster/kubernetes/api-server.ts'
import type { Resource } from '../cluster/kubernetes/resource.ts'
import type { KubernetesObject, World } from '../model/index.ts'
import { startConditions } from '../reconcile/conditions.ts'
import type { Condition, Plan, Reconcile, ReconcileContext } from '../reconcile/plan.ts'
import { canonicalJson } from '../render/canonical.ts'
import type { Applier, ChildProblem } from './applier.ts'
import { type Dependency, DependencyGraph, trackedView } from './dependencies.ts'
import type { EventRecorder } from './event-recorder.ts'
import { finalizerName, partsOf } from './keys.ts'
import type { ReferencedContent } from './referenced-content.ts'

/** Thrown where a write is due that is not ours to make: the lease was lost meanwhile. */
export class NotLeadingError extends Error {
  override readonly name = 'NotLeadingError'
}

export interface ReconcilerOptions {
  readonly api: ApiServer
  readonly world: World
  /** Resource of each kind of ours. */
  readonly resources: ReadonlyMap<string, Resource>
  readonly reconcile: Reconcile<KindDeclaration>
  readonly context: Omit<ReconcileContext, 'now'>
  readonly applier: Applier
  readonly events: EventRecorder
  /** Contents that the view may ask for, by kind. */
  readonly contents: ReadonlyMap<string, ReferencedContent<unknown>>
  readonly assertLeading: () => void
  /** Adds or takes away our finalizer where it is not as the plan says. */
  readonly finalize: (object: KubernetesObject, wanted: boolean) => Promise<void>
  readonly log: Logger
}

/** What came of one reconcile: whether another look is due although nothing has changed. */
export interface Outcome {
  readonly again: boolean
}

const STATUS_MANAGER = 'portico-status'
const ROUNDS = 8

/** RFC 3339 in whole seconds, as metav1.Time is stored. */
const seconds = (): string => new Date().toISOString().replace(/\.\d+Z$/, 'Z')

/**
 * Brings one object from its name to its place in the cluster: plan, finalizer, children, status, events. It knows
 * nothing of what happened, only of what is.
 */
export class Reconciler {
  readonly graph = new DependencyGraph()
  readonly #options: ReconcilerOptions

  constructor(options: ReconcilerOptions) {
    this.#options = options
  }

  /** Throws what a later try may cure. */
  async run(key: string): Promise<Outcome> {
    const { world } = this.#options
    const { kind, namespace, name } = partsOf(key)
    const object = world.objects.get(kind, namespace, name)
    if (!object) {
      this.graph.record(key, new Set())
      return { again: false }
    }
    const plan = await this.#plan(key, object)
    this.#options.assertLeading()
    await this.#options.finalize(object, plan.finalizer)
    // Without our finalizer an object under deletion may be gone by now.
    if (object.metadata.deletionTimestamp && !plan.finalizer) return { again: false }
    const problems = plan.children === 'hold' ? [] : await this.#applyChildren(object, plan.children)
    await this.#writeStatus(object, plan, problems)
    return { again: problems.some(({ waits }) => !waits) }
  }

  /** Plans until every Secret and ConfigMap that the plan looked at is of its latest version. */
  async #plan(key: string, object: KubernetesObject): Promise<Plan> {
    const { world, context, reconcile } = this.#options
    for (let round = 0; ; round++) {
      const seen = new Set<Dependency>()
      let plan: Plan
      try {
        plan = reconcile(object as unknown as ObjectOf<KindDeclaration>, trackedView(world.view, seen), {
          ...context,
          now: seconds(),
        })
      } catch (error) {
        // What the schema lets through must not throw: whatever does is shown, and harms nobody else.
        this.#options.log.error({ key, err: error }, 'reconcile failed')
        plan = failedPlan(object, error, finalizerName(context.group))
      }
      this.graph.record(key, seen)
      const outdated = this.#outdated(seen)
      if (outdated.length === 0 || round === ROUNDS) return plan
      await Promise.all(outdated.map((refresh) => refresh()))
    }
  }

  #outdated(seen: ReadonlySet<Dependency>): (() => Promise<void>)[] {
    const refreshes: (() => Promise<void>)[] = []
    for (const dependency of seen) {
      const { kind, namespace, name } = partsOf(dependency)
      const content = this.#options.contents.get(kind)
      if (content && !content.isCurrent(namespace, name)) refreshes.push(() => content.refresh(namespace, name))
    }
    return refreshes
  }

  #applyChildren(object: KubernetesObject, children: readonly KubernetesObject[]): Promise<ChildProblem[]> {
    const { uid = '', name } = object.metadata
    return this.#options.applier.apply({ kind: object.kind, uid, name }, children)
  }

  /** Writes the status where it differs, once; events follow only a written transition. */
  async #writeStatus(object: KubernetesObject, plan: Plan, problems: readonly ChildProblem[]): Promise<void> {
    const status = problems.length === 0 ? plan.status : withProblems(object, plan, problems)
    if (canonicalJson(status) === canonicalJson(object['status'])) return
    const { api, world, resources, assertLeading, events } = this.#options
    const { name, namespace, uid } = object.metadata
    const { apiVersion, kind } = object
    assertLeading()
    let written: KubernetesObject
    try {
      // The uid keeps the status off another object that has taken the name.
      const body = { apiVersion, kind, metadata: { name, namespace, uid }, status } as unknown as KubernetesObject
      written = await api.apply(resources.get(kind) as Resource, body, STATUS_MANAGER, 'status')
    } catch (error) {
      if (isNotFound(error) || (error instanceof ApiError && error.status === 409)) return
      throw error
    }
    const current = world.objects.get(kind, namespace ?? '', name)
    if (current === object) world.objects.put(written)
    const due =
      problems.length === 0
        ? plan.events
        : problems.map(({ reason, message }) => ({ type: 'Warning' as const, reason, message }))
    const told = toldBefore(object)
    for (const event of due) if (!told.has(event.reason)) await events.record(object, event)
  }
}

const conditionsOf = (status: unknown) =>
  (status as { conditions?: readonly Condition[] } | undefined)?.conditions ?? []

/** What the status that is there tells already: no news, and no event. */
const toldBefore = (object: KubernetesObject): ReadonlySet<string> =>
  new Set(
    conditionsOf(object['status']).flatMap(({ type, status, reason }) =>
      status === 'True' ? [type, reason] : [reason],
    ),
  )

/** The plan's status with what stood in the way of its children as the reason for not being ready. */
function withProblems(object: KubernetesObject, plan: Plan, problems: readonly ChildProblem[]): Plan['status'] {
  const conditions = startConditions(object as never, seconds())
  for (const { type, status, reason, message } of plan.status.conditions) conditions.set(type, status, reason, message)
  const message = problems.map((problem) => problem.message).join('; ')
  conditions.set('Ready', 'False', problems[0]?.reason ?? 'ChildRefused', message)
  return { ...plan.status, conditions: conditions.list() }
}

function failedPlan(object: KubernetesObject, error: unknown, finalizer: string): Plan {
  const conditions = startConditions(object as never, seconds())
  const detail = error instanceof Error ? error.message : String(error)
  conditions.set('Ready', 'False', 'ReconcileFailed', `this object can’t be reconciled: ${detail}`)
  const previous = (object['status'] ?? {}) as object
  return {
    children: 'hold',
    status: { ...previous, conditions: conditions.list(), observedGeneration: object.metadata.generation ?? 1 },
    events: [{ type: 'Warning', reason: 'ReconcileFailed', message: detail }],
    finalizer: object.metadata.finalizers?.includes(finalizer) ?? false,
  }
}
