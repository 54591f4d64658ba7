import { setImmediate as turn } from 'node:timers/promises'
import type { Logger } from 'pino'
import { Unchecked } from '../../../dataplane/config/check/long-check.ts'
import { ApiError } from '../../cluster/kubernetes/api-server.ts'
import type { ClusterView, KubernetesObject } from '../../model/index.ts'
import type { Explained } from '../../reconcile/index.ts'
import { type Plan, type ReconcileContext, startConditions } from '../../reconcile/outcome/plan.ts'
import type { Checks } from '../checks/checks.ts'
import type { Applied, Applier } from '../children/applier.ts'
import type { ChildProblem } from '../children/child-problem.ts'
import { formatFinalizerName, type KeyedQueue, splitKey } from '../queue/queue.ts'
import type { OperatorMetrics } from '../report/metrics.ts'
import { formatNow, StatusWriter, type StatusWriterOptions } from '../report/status-writer.ts'
import { type Contents, onCurrentContents } from '../watch/contents.ts'
import { type Dependency, DependencyGraph } from '../watch/dependencies.ts'
import { isNamespaceGoing, NamespaceGoingError } from '../watch/namespaces.ts'

export class NotLeadingError extends Error {
  override readonly name = 'NotLeadingError'
}

export interface ReconcilerOptions extends StatusWriterOptions {
  /** Plans one object, like the function of that name. */
  readonly explainedPlan: (object: KubernetesObject, view: ClusterView, context: ReconcileContext) => Explained
  readonly context: Omit<ReconcileContext, 'now'>
  readonly applier: Applier
  /** Contents that the view may read, by kind. */
  readonly contents: Contents
  readonly checks: Pick<Checks, 'on'>
  /** Called with a key that is due again because its checks have ended. */
  readonly onChecked: (key: string) => void
  /** Adds or removes our finalizer as the plan says. */
  readonly finalize: (object: KubernetesObject, wanted: boolean) => Promise<void>
}

/** The outcome of a reconcile: whether another one is due although nothing has changed. */
interface Outcome {
  readonly again: boolean
  /** Another installation manages the object. */
  readonly isOfAnother?: true
}

type Due = Pick<KeyedQueue, 'seen' | 'ownSeen'>

interface Made extends Pick<Explained, 'plan' | 'refresh'> {
  readonly seen: ReadonlySet<Dependency>
}

/** The outcome for an object under check: no status is written, and the end of the check makes it due again. */
const CHECKING: Outcome = { again: false }

/** The status codes of a write that can't succeed as it is. */
const REFUSED = new Set([400, 403, 422])

/** The number of times a reconcile starts again because its input has changed meanwhile. */
const ROUNDS = 8

const HELD: Applied = { problems: [], isChanged: false }

/** Reconciles one object by its name, from the current state, not from events. */
export class Reconciler {
  readonly graph = new DependencyGraph()
  readonly #options: ReconcilerOptions
  readonly #status: StatusWriter

  constructor(options: ReconcilerOptions) {
    this.#options = options
    this.#status = new StatusWriter(options)
  }

  /** Throws errors that a retry may cure. `due` records what is about to be read. */
  async run(key: string, due: Due): Promise<Outcome> {
    for (let round = 0; ; round++) {
      due.seen(key)
      const object = this.#object(key)
      if (!object || !this.#options.isManaged(object)) {
        this.graph.record(key, new Set())
        this.#options.applier.forget(splitKey(key))
        return object ? { again: false, isOfAnother: true } : { again: false }
      }
      const outcome = await this.#bring(key, object, due, round === ROUNDS)
      if (outcome) return outcome
    }
  }

  /** Tells whether a change of an object is only our own write of its status. */
  readonly isEcho = (object: KubernetesObject): boolean => this.#status.isEcho(object)

  /** Reconciles one object once. Returns nothing if it must start again, unless it is the last time. */
  async #bring(key: string, object: KubernetesObject, due: Due, isLast: boolean): Promise<Outcome | undefined> {
    const made = await this.#plan(key, object)
    if (made === undefined) return CHECKING
    this.#options.assertLeading()
    const unheld = await this.#finalize(object, made.plan)
    if (unheld.length === 0 && isGoing(object, made.plan, formatFinalizerName(this.#options.context.group)))
      return { again: false }
    try {
      return await this.#settle(key, object, { made, unheld }, isLast ? undefined : due)
    } catch (error) {
      // The object is deleted with its namespace. If both are created again, it is reconciled again.
      if (error instanceof NamespaceGoingError) return { again: true }
      throw error
    }
  }

  /** Adds or removes our finalizer. A refusal, such as one of an admission policy, is reported and keeps nothing else. */
  async #finalize(object: KubernetesObject, { finalizer }: Plan): Promise<readonly ChildProblem[]> {
    try {
      await this.#options.finalize(object, finalizer)
      return []
    } catch (error) {
      if (!(error instanceof ApiError) || !REFUSED.has(error.status) || isNamespaceGoing(error)) throw error
      const name = formatFinalizerName(this.#options.context.group)
      const message = `the finalizer ${name} can’t be ${finalizer ? 'set' : 'removed'}: ${error.message}`
      return [{ reason: 'FinalizerRefused', message, waits: false }]
    }
  }

  /**
   * Applies the children and writes the status once. If the children have changed meanwhile, it looks once more.
   * Returns nothing if anything else has changed, unless `due` is undefined.
   */
  async #settle(
    key: string,
    object: KubernetesObject,
    { made, unheld }: { readonly made: Made; readonly unheld: readonly ChildProblem[] },
    due: Due | undefined,
  ): Promise<Outcome | undefined> {
    let current: Made | undefined = made
    for (let look = 0; current; look++) {
      const { plan } = current
      const { problems, isChanged } = plan.children === 'hold' ? HELD : await this.#applyChildren(object, plan.children)
      if (!isChanged || problems.length > 0 || !due) return this.#report(object, plan, [...unheld, ...problems])
      current = look < ROUNDS && due.ownSeen(key) ? this.#refresh(key, current) : undefined
    }
    return undefined
  }

  async #report(object: KubernetesObject, plan: Plan, problems: readonly ChildProblem[]): Promise<Outcome> {
    const isWritten = await this.#status.write(object, plan, problems)
    return { again: !isWritten || problems.some(({ waits }) => !waits) }
  }

  /** Returns nothing if another thread has to check something first. */
  async #plan(key: string, object: KubernetesObject): Promise<Made | undefined> {
    const { world, contents, checks, onChecked } = this.#options
    const { namespace } = splitKey(key)
    const planned = await onCurrentContents(world.view, contents, (view, seen) => {
      const planned = checks.on(namespace, () => ({ ...this.#explain(key, object, view), seen }))
      this.graph.record(key, seen)
      return planned
    })
    if ('made' in planned) return planned.made
    planned.checked.then(
      () => onChecked(key),
      (error) => this.#options.log.error({ key, err: error }, 'a check could not be run'),
    )
    return undefined
  }

  #explain(key: string, object: KubernetesObject, view: ClusterView): Pick<Explained, 'plan' | 'refresh'> {
    const { context, explainedPlan } = this.#options
    try {
      return explainedPlan(object, view, { ...context, now: formatNow() })
    } catch (error) {
      if (error instanceof Unchecked) throw error
      // An object that the schema accepts must not throw. A failure is shown, and affects no other object.
      this.#options.log.error({ key, err: error }, 'reconcile failed')
      return { plan: createFailedPlan(object, error, formatFinalizerName(context.group)) }
    }
  }

  /** Returns the plan with a status of the current state, or nothing if that needs a whole new plan. */
  #refresh(key: string, { refresh, seen }: Made): Made | undefined {
    const { size } = seen
    const plan = refresh?.()
    this.graph.record(key, seen)
    return plan && seen.size === size ? { plan, refresh, seen } : undefined
  }

  #object(key: string): KubernetesObject | undefined {
    const { kind, namespace, name } = splitKey(key)
    return this.#options.world.objects.get(kind, namespace, name)
  }

  #applyChildren(object: KubernetesObject, children: readonly KubernetesObject[]): Promise<Applied> {
    const { uid = '', namespace = '', name } = object.metadata
    return this.#options.applier.apply({ kind: object.kind, uid, namespace, name }, children)
  }
}

/** Tells whether nothing holds an object under deletion any more, our finalizer included. It may be gone by now. */
const isGoing = ({ metadata }: KubernetesObject, { finalizer }: Plan, ours: string): boolean =>
  metadata.deletionTimestamp !== undefined && !finalizer && (metadata.finalizers ?? []).every((one) => one === ours)

function createFailedPlan(object: KubernetesObject, error: unknown, finalizer: string): Plan {
  const conditions = startConditions(object as never, formatNow())
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

interface WorkOptions {
  readonly queue: KeyedQueue
  readonly reconciler: Reconciler
  readonly leading: () => boolean
  readonly metrics: OperatorMetrics
  readonly log: Logger
}

/** `again`: another reconcile is due. `skipped`: this process doesn't lead. */
type Result = 'ok' | 'again' | 'error' | 'skipped'

async function reconcileOne(key: string, { queue, reconciler, leading, log }: WorkOptions): Promise<Result> {
  // A new leader puts every key back.
  if (!leading()) return 'skipped'
  try {
    const { again, isOfAnother } = await reconciler.run(key, queue)
    if (isOfAnother) return 'skipped'
    return again ? 'again' : 'ok'
  } catch (error) {
    if (error instanceof NotLeadingError) return 'skipped'
    // An error of the API server or the network needs no stack. Anything else is a fault of ours.
    const isExpected = error instanceof ApiError || (error as { code?: unknown }).code !== undefined
    const details = isExpected ? { error: (error as Error).message } : { err: error }
    log.warn({ key, ...details, failures: queue.failures(key) + 1 }, 'a reconcile failed and will be tried again')
    const retryAfter = error instanceof ApiError ? (error.retryAfter ?? 0) * 1000 : 0
    queue.retry(key, retryAfter)
    return 'error'
  }
}

/**
 * Runs one worker until the queue is closed. An error delays only its own key. A reconcile that waits for nothing must
 * not block probes and watches.
 */
export async function work(options: WorkOptions): Promise<void> {
  const { queue, metrics } = options
  for (let key = await queue.take(); key !== undefined; key = await queue.take()) {
    const started = performance.now()
    const result = await reconcileOne(key, options)
    metrics.reconciled(splitKey(key).kind, result, (performance.now() - started) / 1000)
    if (result === 'ok' || result === 'skipped') queue.forget(key)
    if (result === 'again') queue.retry(key)
    queue.done(key)
    await turn()
  }
}
