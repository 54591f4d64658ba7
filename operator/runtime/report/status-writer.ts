import type { Logger } from 'pino'
import { kinds } from '../../../crds/index.ts'
import { ApiError, type ApiServer, hasStatus, ignoreStatus, isNotFound } from '../../cluster/kubernetes/api-server.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject, World } from '../../model/index.ts'
import { lacksStatus, type Plan, type PlannedEvent, startConditions } from '../../reconcile/outcome/plan.ts'
import { canonicalJson } from '../../render/object/canonical.ts'
import type { ChildProblem } from '../children/child-problem.ts'
import { hasSameFinalizers, isOwnAffair, trimObject } from '../watch/kind-store.ts'
import { NamespaceGoingError, type Namespaces } from '../watch/namespaces.ts'
import { type EventRecorder, findCondition, LastingWarnings } from './event-recorder.ts'

export interface StatusWriterOptions {
  readonly api: ApiServer
  readonly world: World
  readonly resources: ReadonlyMap<string, Resource>
  readonly events: EventRecorder
  readonly namespaces: Namespaces
  readonly assertLeading: () => void
  readonly leading: () => boolean
  readonly isManaged: (object: KubernetesObject) => boolean
  readonly log: Logger
}

const STATUS_MANAGER = 'portico-status'
/** The status codes for a status that can't be stored as it is. */
const REFUSED = new Set([400, 413, 422])
/** Milliseconds after which a refused status is tried again. Its CRD may have changed by then. */
const REFUSED_AGAIN = 30_000

/** Returns the time in RFC 3339 with whole seconds, as metav1.Time is stored. */
export const formatNow = (): string => new Date().toISOString().replace(/\.\d+Z$/, 'Z')

interface Refused {
  readonly text: string
  readonly until: number
}

/** Writes statuses: each as a whole, if it differs, once. Events follow only a written transition. */
export class StatusWriter {
  readonly #options: StatusWriterOptions
  readonly #refused = new WeakMap<object, Refused>()
  /** The statuses that are being written, as text, by uid. */
  readonly #underWay = new Map<string, string>()
  readonly #warnings: LastingWarnings

  constructor(options: StatusWriterOptions) {
    this.#options = options
    this.#warnings = new LastingWarnings({
      current: (object) => this.#current(object),
      write: (object, event) => this.#recordLater(object, event),
    })
  }

  /** Writes the status. Returns whether the object has it then. Throws errors that a retry may cure. */
  async write(object: KubernetesObject, plan: Plan, problems: readonly ChildProblem[]): Promise<boolean> {
    const wanted = problems.length === 0 ? plan.status : withProblems(object, plan, problems)
    const refused = this.#refused.get(object)
    if (refused && refused.text === formatWithoutTimes(wanted) && Date.now() < refused.until) return false
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

  /** Tells whether an object has the status that is being written: the watch may be faster than the answer. */
  isEcho({ metadata, status }: KubernetesObject): boolean {
    const text = metadata.uid === undefined ? undefined : this.#underWay.get(metadata.uid)
    return text !== undefined && text === canonicalJson(status)
  }

  /** Reports the refusal of a status in a status with nothing else. */
  async #refuse(object: KubernetesObject, wanted: Plan['status'], message: string): Promise<void> {
    const { log } = this.#options
    const { namespace = '', name, generation = 1 } = object.metadata
    log.warn({ kind: object.kind, namespace, name, error: message }, 'the API server refuses a status')
    const conditions = startConditions(object as never, formatNow())
    const text = `the API server refuses the status of this object; install the CRDs of this version: ${message}`
    conditions.set('Ready', 'False', 'StatusRefused', text)
    const status = { conditions: conditions.list(), observedGeneration: generation }
    const isWritten = formatWithoutTimes(object['status']) === formatWithoutTimes(status)
    const there = isWritten ? object : await this.#replace(object, status)
    if (there) this.#refused.set(there, { text: formatWithoutTimes(wanted), until: Date.now() + REFUSED_AGAIN })
    if (there && !isWritten)
      await this.#recordEvents(object, [{ type: 'Warning', reason: 'StatusRefused', message: text }])
  }

  /** Returns the written object, or undefined if it is gone. `text`: the status as canonical JSON. */
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
      // The patch replaces the whole status. The uid protects another object of the name.
      const answer = await api.jsonPatch(resource, namespace, name, {
        fieldManager: STATUS_MANAGER,
        subresource: 'status',
        operations: [
          { op: 'test', path: '/metadata/uid', value: uid },
          { op: 'add', path: '/status', value: status },
        ],
      })
      const written = trimObject(answer)
      // The watch must still deliver any other change of the object.
      const isKnown = world.objects.get(object.kind, namespace, name) === object
      if (isKnown && isOwnAffair(object, written) && hasSameFinalizers(object, written)) world.objects.put(written)
      return written
    } catch (error) {
      if (isNotFound(error) || (await this.#isAnother(error, resource, object))) return undefined
      throw error
    } finally {
      this.#underWay.delete(uid)
    }
  }

  /** Records warnings once they have lasted, and all other events at once. */
  async #recordEvents(object: KubernetesObject, due: Plan['events']): Promise<void> {
    // Everybody expects a new object to be on its way, so its first status is an event only if it is a warning.
    const isFirst = lacksStatus(object)
    for (const event of due) {
      // The status reports it already.
      if (event.condition === undefined && findCondition(object, event)) continue
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
        this.#options.log.warn({ err: error, reason: event.reason }, 'an event could not be written')
    })
  }

  #current({ kind, metadata: { namespace = '', name, uid } }: KubernetesObject): KubernetesObject | undefined {
    const { world, leading, isManaged } = this.#options
    const there = world.objects.get(kind, namespace, name)
    return there && there.metadata.uid === uid && leading() && isManaged(there) ? there : undefined
  }

  /** Tells whether a write failed because another object has the name now. */
  async #isAnother(error: unknown, resource: Resource, { metadata }: KubernetesObject): Promise<boolean> {
    if (!hasStatus(error, 422)) return false
    const there = await ignoreStatus(this.#options.api.get(resource, metadata.namespace, metadata.name), 404)
    return there === undefined || there.metadata.uid !== metadata.uid
  }
}

/** Returns a status as text without its times, since a status that was never written has new ones at each reconcile. */
const formatWithoutTimes = (status: unknown): string =>
  canonicalJson(status ?? null).replaceAll(/"(lastTransitionTime|configHashTime)":"[^"]*"/g, '')

/** Reasons that waiting does not cure. */
const FINAL: ReadonlySet<string> = new Set(['ChildRefused', 'NameTaken'])

/**
 * Returns the plan's status with the problems of its children. `Stalled` or `Reconciling` says whether waiting helps
 * (kstatus).
 */
export function withProblems(object: KubernetesObject, plan: Plan, problems: readonly ChildProblem[]): Plan['status'] {
  const conditions = startConditions(object as never, formatNow())
  for (const { type, status, reason, message } of plan.status.conditions)
    if (type !== 'Stalled' && type !== 'Reconciling') conditions.set(type, status, reason, message)
  const { reason = 'ChildRefused' } = problems.find((problem) => FINAL.has(problem.reason)) ?? problems[0] ?? {}
  const isFinal = FINAL.has(reason)
  conditions.set('Ready', 'False', reason, problems.map((problem) => problem.message).join('; '))
  const message = conditions.get('Ready')?.message ?? ''
  conditions.set(isFinal ? 'Stalled' : 'Reconciling', 'True', reason, message)
  const { phase } = plan.status
  const isWorkload = kinds[object.kind as keyof typeof kinds].role === 'workload'
  // Only workloads have a phase between the two, and a message.
  const degraded = isWorkload ? 'Degraded' : 'Pending'
  const waiting = phase === 'Pending' || phase === 'Terminating' ? phase : degraded
  const summed = phase === undefined ? {} : { phase: isFinal ? 'Failed' : waiting, ...(isWorkload && { message }) }
  return { ...plan.status, ...summed, conditions: conditions.list() }
}
