import type { Logger } from 'pino'
import { ApiError, type ApiServer, isNotFound } from '../../cluster/kubernetes/api-server.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject, World } from '../../model/index.ts'
import { startConditions } from '../../reconcile/outcome/conditions.ts'
import type { Plan, PlannedEvent } from '../../reconcile/outcome/plan.ts'
import { canonicalJson } from '../../render/object/canonical.ts'
import type { ChildProblem } from '../children/child-problem.ts'
import { isOwnAffair, keptObject, sameFinalizers } from '../watch/kept-object.ts'
import { NamespaceGoingError, type Namespaces } from '../watch/namespaces.ts'
import type { EventRecorder } from './event-recorder.ts'
import { conditionOf, LastingWarnings } from './lasting-warnings.ts'

export interface StatusWriterOptions {
  readonly api: ApiServer
  readonly world: World
  /** Resource of each kind of ours. */
  readonly resources: ReadonlyMap<string, Resource>
  readonly events: EventRecorder
  readonly namespaces: Namespaces
  readonly assertLeading: () => void
  readonly leading: () => boolean
  /** Whether an object is ours to look after. */
  readonly isLookedAfter: (object: KubernetesObject) => boolean
  readonly log: Logger
}

const STATUS_MANAGER = 'portico-status'
/** What a status that can't be stored as it is comes back with. */
const REFUSED = new Set([400, 413, 422])
/** Milliseconds after which a refused status is tried again: its CRD may be another one by then. */
const REFUSED_AGAIN = 30_000

/** RFC 3339 in whole seconds, as metav1.Time is stored. */
export const seconds = (): string => new Date().toISOString().replace(/\.\d+Z$/, 'Z')

/** A status that the API server has refused. */
interface Refused {
  readonly text: string
  readonly until: number
}

/** Writes statuses: each as a whole, where it differs, once. Events follow only a written transition. */
export class StatusWriter {
  readonly #options: StatusWriterOptions
  readonly #refused = new WeakMap<object, Refused>()
  /** Statuses whose writes are under way, as text, by uid. */
  readonly #underWay = new Map<string, string>()
  readonly #warnings: LastingWarnings

  constructor(options: StatusWriterOptions) {
    this.#options = options
    this.#warnings = new LastingWarnings({
      current: (object) => this.#current(object),
      write: (object, event) => this.#recordLater(object, event),
    })
  }

  /** Whether the object has the plan's status then. Throws what a retry may cure, and a NamespaceGoingError. */
  async write(object: KubernetesObject, plan: Plan, problems: readonly ChildProblem[]): Promise<boolean> {
    const wanted = problems.length === 0 ? plan.status : withProblems(object, plan, problems)
    const refused = this.#refused.get(object)
    if (refused && refused.text === timeless(wanted) && Date.now() < refused.until) return false
    const text = canonicalJson(wanted)
    if (text === canonicalJson(object['status'])) return true
    const due =
      problems.length === 0
        ? plan.events
        : problems.map(({ reason, message }) => ({ type: 'Warning' as const, reason, message }))
    try {
      const written = await this.#replace(object, wanted, text)
      if (written) await this.#recordEvents(object, due)
      return true
    } catch (error) {
      if (!(error instanceof ApiError) || !REFUSED.has(error.status)) throw error
      await this.#refuse(object, wanted, error.message)
      return false
    }
  }

  /** Whether an object has the status that is being written to it: the watch may tell of a write before its answer comes. */
  isEcho({ metadata, status }: KubernetesObject): boolean {
    const text = metadata.uid === undefined ? undefined : this.#underWay.get(metadata.uid)
    return text !== undefined && text === canonicalJson(status)
  }

  /** Shows that the status is refused by one that says nothing else. */
  async #refuse(object: KubernetesObject, wanted: Plan['status'], message: string): Promise<void> {
    const { log } = this.#options
    const { namespace = '', name, generation = 1 } = object.metadata
    log.warn({ kind: object.kind, namespace, name, error: message }, 'status is refused')
    const conditions = startConditions(object as never, seconds())
    const text = `the API server refuses the status of this object; is its CRD of this version? ${message}`
    conditions.set('Ready', 'False', 'StatusRefused', text)
    const status = { conditions: conditions.list(), observedGeneration: generation }
    const isWritten = timeless(object['status']) === timeless(status)
    const there = isWritten ? object : await this.#replace(object, status)
    if (there) this.#refused.set(there, { text: timeless(wanted), until: Date.now() + REFUSED_AGAIN })
    if (there && !isWritten)
      await this.#recordEvents(object, [{ type: 'Warning', reason: 'StatusRefused', message: text }])
  }

  /** The object as written; undefined where it is gone, or another one has its name. `text` is the status as canonical JSON. */
  async #replace(
    object: KubernetesObject,
    status: Plan['status'],
    text = canonicalJson(status),
  ): Promise<KubernetesObject | undefined> {
    const { api, world, resources, namespaces, assertLeading } = this.#options
    const { name, namespace = '', uid = '' } = object.metadata
    const resource = resources.get(object.kind) as Resource
    await namespaces.assertStays(namespace)
    assertLeading()
    this.#underWay.set(uid, text)
    try {
      // As a whole: whatever somebody else has written into it is gone. The uid keeps it off another object that has
      // taken the name.
      const answer = await api.jsonPatch(resource, namespace, name, {
        fieldManager: STATUS_MANAGER,
        subresource: 'status',
        operations: [
          { op: 'test', path: '/metadata/uid', value: uid },
          { op: 'add', path: '/status', value: status },
        ],
      })
      const written = keptObject(answer)
      // Whatever else has changed in it the watch is yet to tell of: known from here, it would be news to nobody.
      const isKnown = world.objects.get(object.kind, namespace, name) === object
      if (isKnown && isOwnAffair(object, written) && sameFinalizers(object, written)) world.objects.put(written)
      return written
    } catch (error) {
      if (isNotFound(error) || (await this.#isAnother(error, resource, object))) return undefined
      throw error
    } finally {
      this.#underWay.delete(uid)
    }
  }

  /** Warnings follow once they have lasted, all else at once. */
  async #recordEvents(object: KubernetesObject, due: Plan['events']): Promise<void> {
    // That a new object is on its way is what everybody expects: its first status is news where it warns.
    const isFirst = object['status'] === undefined
    for (const event of due) {
      // What the status tells already is no news.
      if (conditionOf(object, event.reason)) continue
      if (event.type === 'Warning') this.#warnings.tell(object, event)
      else if (!isFirst) await this.#record(object, event)
    }
  }

  async #record(object: KubernetesObject, event: PlannedEvent): Promise<void> {
    const { events, namespaces } = this.#options
    await namespaces.assertStays(object.metadata.namespace ?? '')
    await events.record(object, event)
  }

  #recordLater(object: KubernetesObject, event: PlannedEvent): void {
    this.#record(object, event).catch((error) => {
      if (!(error instanceof NamespaceGoingError))
        this.#options.log.warn({ err: error, reason: event.reason }, 'event was not written')
    })
  }

  /** The object as it is by now, while it is ours to write about. */
  #current({ kind, metadata: { namespace = '', name, uid } }: KubernetesObject): KubernetesObject | undefined {
    const { world, leading, isLookedAfter } = this.#options
    const there = world.objects.get(kind, namespace, name)
    return there && there.metadata.uid === uid && leading() && isLookedAfter(there) ? there : undefined
  }

  /** Whether a write failed because another object has the name now. */
  async #isAnother(error: unknown, resource: Resource, { metadata }: KubernetesObject): Promise<boolean> {
    if (!(error instanceof ApiError) || error.status !== 422) return false
    try {
      const there = await this.#options.api.get(resource, metadata.namespace, metadata.name)
      return there.metadata.uid !== metadata.uid
    } catch (reading) {
      if (isNotFound(reading)) return true
      throw reading
    }
  }
}

/** A status as text without its times: what was never written has another one at each reconcile. */
const timeless = (status: unknown): string =>
  canonicalJson(status ?? null).replaceAll(/"(lastTransitionTime|configHashTime)":"[^"]*"/g, '')

/** What waiting does not cure: the API server, or whoever has the name, says no until somebody changes something. */
const FINAL: ReadonlySet<string> = new Set(['ChildRefused', 'NameTaken'])

/**
 * The plan's status with what stood in the way of its children as the reason for not being ready. Its phase says the same,
 * and `Stalled` or `Reconciling` whether waiting helps (kstatus).
 */
export function withProblems(object: KubernetesObject, plan: Plan, problems: readonly ChildProblem[]): Plan['status'] {
  const conditions = startConditions(object as never, seconds())
  for (const { type, status, reason, message } of plan.status.conditions)
    if (type !== 'Stalled' && type !== 'Reconciling') conditions.set(type, status, reason, message)
  const { reason = 'ChildRefused' } = problems.find((problem) => FINAL.has(problem.reason)) ?? problems[0] ?? {}
  const isFinal = FINAL.has(reason)
  conditions.set('Ready', 'False', reason, problems.map((problem) => problem.message).join('; '))
  const message = conditions.get('Ready')?.message ?? ''
  conditions.set(isFinal ? 'Stalled' : 'Reconciling', 'True', reason, message)
  const { phase } = plan.status
  const waiting = phase === 'Pending' || phase === 'Terminating' ? phase : 'Degraded'
  const summed = phase === undefined ? {} : { phase: isFinal ? 'Failed' : waiting, message }
  return { ...plan.status, ...summed, conditions: conditions.list() }
}
