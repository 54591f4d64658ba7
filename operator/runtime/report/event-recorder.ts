import type { Logger } from 'pino'
import type { ApiServer } from '../../cluster/kubernetes/api-server.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { eventNote, type PlannedEvent } from '../../reconcile/outcome/plan.ts'
import { saysNamespaceGoes } from '../watch/namespaces.ts'

const EVENTS: Resource = { group: 'events.k8s.io', version: 'v1', plural: 'events', kind: 'Event' }

/** Characters of an event's name that say whose it is. A name has 253, and the rest makes it unique. */
const OWNER_PART = 220

/** Writes Events (events.k8s.io/v1). A failed write is logged and forgotten: an event is a courtesy, not state. */
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
        note: eventNote(event),
        regarding: { apiVersion: object.apiVersion, kind: object.kind, namespace, name, uid, resourceVersion },
      })
    } catch (error) {
      if (saysNamespaceGoes(error)) return
      this.#log.warn(
        { error: String(error), reason: event.reason, object: `${object.kind}/${namespace}/${name}` },
        'an event could not be written',
      )
    }
  }
}
