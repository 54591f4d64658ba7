import type { KindDeclaration, ObjectOf } from '../../../crds/define.ts'
import type { KubernetesObject } from '../../model/index.ts'
import { startConditions } from '../../reconcile/outcome/conditions.ts'
import type { Plan, Reconcile, ReconcileContext } from '../../reconcile/outcome/plan.ts'
import type { Applied, Applier } from '../children/applier.ts'
import { finalizerName, partsOf } from '../queue/keys.ts'
import { StatusWriter, type StatusWriterOptions, seconds } from '../report/status-writer.ts'
import { type Contents, onCurrentContents } from '../watch/current-contents.ts'
import { DependencyGraph } from '../watch/dependencies.ts'
import { NamespaceGoingError } from '../watch/namespaces.ts'

/** Thrown where a write is due that is not ours to make: the lease was lost meanwhile. */
export class NotLeadingError extends Error {
  override readonly name = 'NotLeadingError'
}

export interface ReconcilerOptions extends StatusWriterOptions {
  /** Whether an object is ours to look after. */
  readonly isLookedAfter: (object: KubernetesObject) => boolean
  readonly reconcile: Reconcile<KindDeclaration>
  readonly context: Omit<ReconcileContext, 'now'>
  readonly applier: Applier
  /** Contents that the view may ask for, by kind. */
  readonly contents: Contents
  /** Adds or takes away our finalizer where it is not as the plan says. */
  readonly finalize: (object: KubernetesObject, wanted: boolean) => Promise<void>
}

/** What came of one reconcile: whether another one is due although nothing has changed. */
export interface Outcome {
  readonly again: boolean
  /** It is not ours to look after. */
  readonly isOfAnother?: true
}

/** How often a reconcile begins anew because what it stands on has changed meanwhile. */
const ROUNDS = 8

const HELD: Applied = { problems: [], isChanged: false }

/**
 * Takes one object from its name to what the cluster should have of it: plan, finalizer, children, status, events. It
 * knows nothing of what happened, only of what is.
 */
export class Reconciler {
  readonly graph = new DependencyGraph()
  readonly #options: ReconcilerOptions
  readonly #status: StatusWriter

  constructor(options: ReconcilerOptions) {
    this.#options = options
    this.#status = new StatusWriter(options)
  }

  /**
   * Throws what a later try may cure. `isSeen` hears each time that all changes which the key is due for are about to be
   * read: no other reconcile is due for them.
   */
  async run(key: string, isSeen: () => void): Promise<Outcome> {
    const { kind, namespace, name } = partsOf(key)
    for (let round = 0; ; round++) {
      isSeen()
      const object = this.#options.world.objects.get(kind, namespace, name)
      if (!object || !this.#options.isLookedAfter(object)) {
        this.graph.record(key, new Set())
        this.#options.applier.forget({ kind, namespace, name })
        return object ? { again: false, isOfAnother: true } : { again: false }
      }
      const outcome = await this.#bring(key, object, round === ROUNDS)
      if (outcome) return outcome
    }
  }

  /** Whether a change of an object is nothing but a write of ours to its status. */
  readonly isEcho = (object: KubernetesObject): boolean => this.#status.isEcho(object)

  /**
   * Brings one object to where its plan wants it. Gives nothing where its children have changed on the way, unless it is
   * the last time: the status is written once, of children as they are.
   */
  async #bring(key: string, object: KubernetesObject, isLast: boolean): Promise<Outcome | undefined> {
    const plan = await this.#plan(key, object)
    this.#options.assertLeading()
    await this.#options.finalize(object, plan.finalizer)
    // Without our finalizer an object under deletion may be gone by now.
    if (object.metadata.deletionTimestamp && !plan.finalizer) return { again: false }
    try {
      const { problems, isChanged } = plan.children === 'hold' ? HELD : await this.#applyChildren(object, plan.children)
      if (isChanged && problems.length === 0 && !isLast) return undefined
      const isWritten = await this.#status.write(object, plan, problems)
      return { again: !isWritten || problems.some(({ waits }) => !waits) }
    } catch (error) {
      // The object goes with its namespace. One that is made anew in a namespace made anew is reconciled again.
      if (error instanceof NamespaceGoingError) return { again: true }
      throw error
    }
  }

  #plan(key: string, object: KubernetesObject): Promise<Plan> {
    const { world, context, reconcile, contents } = this.#options
    return onCurrentContents(world.view, contents, (view, seen) => {
      let plan: Plan
      try {
        plan = reconcile(object as unknown as ObjectOf<KindDeclaration>, view, { ...context, now: seconds() })
      } catch (error) {
        // What the schema lets through must not throw: whatever does is shown, and harms nobody else.
        this.#options.log.error({ key, err: error }, 'reconcile failed')
        plan = failedPlan(object, error, finalizerName(context.group))
      }
      this.graph.record(key, seen)
      return plan
    })
  }

  #applyChildren(object: KubernetesObject, children: readonly KubernetesObject[]): Promise<Applied> {
    const { uid = '', namespace = '', name } = object.metadata
    return this.#options.applier.apply({ kind: object.kind, uid, namespace, name }, children)
  }
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
