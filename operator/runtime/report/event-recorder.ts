import type { Logger } from 'pino'
import type { ApiServer } from '../../cluster/kubernetes/api-server.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { type Condition, formatEventNote, type PlannedEvent, readConditions } from '../../reconcile/outcome/plan.ts'
import { isNamespaceGoing } from '../watch/namespaces.ts'

const EVENTS: Resource = { group: 'events.k8s.io', version: 'v1', plural: 'events', kind: 'Event' }

/** Characters of an event's name that say whose it is. A name has 253, and the rest makes it unique. */
const OWNER_PART = 220

/** Writes Events (events.k8s.io/v1). A failed write is logged and not repeated, because an event is no state. */
export class EventRecorder {
  readonly #api: ApiServer
  readonly #controller: string
  readonly #instance: string
  readonly #log: Logger
  #count = 0

  constructor(api: ApiServer, controller: string, instance: string, log: Logger) {
    this.#api = api
    this.#controller = controller
    this.#instance = instance
    this.#log = log
  }

  async record(object: KubernetesObject, event: PlannedEvent): Promise<void> {
    const { namespace = 'default', name, uid, resourceVersion } = object.metadata
    const now = new Date()
    this.#count += 1
    const owner = name.slice(0, OWNER_PART).replace(/[-.]+$/, '')
    try {
      await this.#api.create(EVENTS, namespace, {
        apiVersion: 'events.k8s.io/v1',
        kind: 'Event',
        metadata: { namespace, name: `${owner}.${now.getTime().toString(16)}${this.#count.toString(16)}` },
        eventTime: now.toISOString().replace('Z', '000Z'),
        reportingController: this.#controller,
        reportingInstance: this.#instance.slice(0, 128),
        action: 'Reconcile',
        type: event.type,
        reason: event.reason,
        note: formatEventNote(event),
        regarding: { apiVersion: object.apiVersion, kind: object.kind, namespace, name, uid, resourceVersion },
      })
    } catch (error) {
      if (isNamespaceGoing(error)) return
      this.#log.warn(
        { error: String(error), reason: event.reason, object: `${object.kind}/${namespace}/${name}` },
        'an event could not be written',
      )
    }
  }
}

interface LastingWarningsOptions {
  /** Returns the current object, or undefined if it is gone or this process may not report on it any more. */
  readonly current: (object: KubernetesObject) => KubernetesObject | undefined
  readonly write: (object: KubernetesObject, event: PlannedEvent) => void
  /** Milliseconds that a warning must last. */
  readonly lasts?: number
}

/** `kubectl apply -f` of a folder is usually faster. */
const LASTS_MS = 5_000

/**
 * Returns the condition behind an event. If the event names a type: that condition, if it is False. Otherwise a condition
 * with the reason of the event, or a True one whose type is that reason.
 */
export const findCondition = (
  object: KubernetesObject,
  { reason, condition }: Pick<PlannedEvent, 'reason' | 'condition'>,
): Condition | undefined =>
  readConditions(object).find((one) =>
    condition === undefined
      ? one.reason === reason || (one.status === 'True' && one.type === reason)
      : one.type === condition && one.status === 'False',
  )

/**
 * Delays warnings until they have lasted: of objects that are applied together, the first ones miss the others for a
 * moment. Delayed warnings are dropped when the process ends.
 */
export class LastingWarnings {
  readonly #options: LastingWarningsOptions
  /** The delayed warnings, by uid and reason. */
  readonly #kept = new Set<string>()

  constructor(options: LastingWarningsOptions) {
    this.#options = options
  }

  /** Writes the warning once it has lasted, with the text that its condition has then. */
  tell(object: KubernetesObject, event: PlannedEvent): void {
    const key = `${object.metadata.uid}/${event.reason}`
    if (this.#kept.has(key)) return
    this.#kept.add(key)
    setTimeout(() => {
      this.#kept.delete(key)
      const there = this.#options.current(object)
      const condition = there && findCondition(there, event)
      if (condition) this.#options.write(there, { ...event, message: condition.message })
    }, this.#options.lasts ?? LASTS_MS).unref()
  }
}
