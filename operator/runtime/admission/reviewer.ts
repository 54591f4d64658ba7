import type { Logger } from 'pino'
import { findKind, kinds } from '../../../crds/index.ts'
import { isObject } from '../../../crds/settings/json.ts'
import { byKindAndName, byText, createObjectIndex } from '../../model/index.ts'
import type { ClusterView, KubernetesObject } from '../../model/view.ts'
import { explainedPlan } from '../../reconcile/index.ts'
import {
  conditionProblems,
  formatProblem,
  type Plan,
  type Problem,
  type ReconcileContext,
  withoutSecrets,
} from '../../reconcile/outcome/plan.ts'
import { VERSION } from '../../render/object/object.ts'
import type { Checks } from '../checks/checks.ts'
import { pause } from '../queue/pause.ts'
import { type Contents, onCurrentContents } from '../watch/contents.ts'

/** The outcome of a review. With `unready` and `failed` the answer says nothing of the object. */
type ReviewOutcome = 'clean' | 'warned' | 'unready' | 'failed'

interface Reviewed {
  readonly outcome: ReviewOutcome
  readonly warnings: readonly string[]
}

interface ReviewerOptions {
  readonly view: ClusterView
  readonly contents: Contents
  readonly checks: Pick<Checks, 'on'>
  readonly context: Omit<ReconcileContext, 'now'>
  readonly namespaces: readonly string[]
  readonly isManaged: (object: KubernetesObject) => boolean
  /** Tells whether the view has every object. Until then a review can't say that one is missing. */
  readonly isSynced: () => boolean
  readonly onReviewed: (kind: string, outcome: ReviewOutcome) => void
  readonly log: Logger
}

/** The answer to an AdmissionReview (admission.k8s.io/v1). Every object is allowed, with or without warnings. */
interface ReviewAnswer {
  readonly apiVersion: typeof API_VERSION
  readonly kind: 'AdmissionReview'
  readonly response: { readonly uid: string; readonly allowed: true; readonly warnings?: readonly string[] }
}

const API_VERSION = 'admission.k8s.io/v1'
/** Milliseconds that our watches get to deliver what was written just before. */
const SECOND_LOOK_MS = 250
/** Milliseconds that one look waits for checks of the object. The API server waits for two looks. */
const CHECKS_MS = 2_000
/** The time of conditions that are never written. */
const NO_TIME = '1970-01-01T00:00:00Z'
/** A UID has 36 characters. */
const LONGEST_UID = 128
/** The number of our own faults that the log tells apart. */
const MOST_FAULTS = 100

type Unknown = Readonly<Record<string, unknown>>

const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''

/** Predicts what `reconcile` will say, by this process's own view, whether or not it leads. Writes nothing. */
export class Reviewer {
  readonly #options: ReviewerOptions
  readonly #faults = new Set<string>()
  readonly #never = new AbortController().signal

  constructor(options: ReviewerOptions) {
    this.#options = options
  }

  /** Takes any JSON. Returns undefined if it is no AdmissionReview that can be answered. Never throws. */
  async review(body: unknown): Promise<ReviewAnswer | undefined> {
    if (!isObject(body) || body['apiVersion'] !== API_VERSION || body['kind'] !== 'AdmissionReview') return undefined
    const { request } = body
    if (!isObject(request)) return undefined
    const { uid } = request
    if (!isText(uid) || uid.length > LONGEST_UID) return undefined
    const warnings = await this.#warnings(request)
    return {
      apiVersion: API_VERSION,
      kind: 'AdmissionReview',
      response: { uid, allowed: true, ...(warnings.length > 0 ? { warnings } : {}) },
    }
  }

  async #warnings(request: Unknown): Promise<readonly string[]> {
    const object = this.#readObject(request)
    if (!object) return []
    const { outcome, warnings } = await this.#judge(object, request['operation'] === 'DELETE')
    this.#options.onReviewed(object.kind, outcome)
    return warnings
  }

  async #judge(object: KubernetesObject, isDeletion: boolean): Promise<Reviewed> {
    if (!this.#options.isSynced()) return { outcome: 'unready', warnings: [] }
    const warn = isDeletion ? warnOfDeletion : buildWarnings
    try {
      if (warn(object, await this.#explain(object)).length === 0) return { outcome: 'clean', warnings: [] }
      // Our watches may not have delivered yet what was applied or deleted a moment ago.
      await pause(SECOND_LOOK_MS, this.#never)
      const warnings = warn(object, await this.#explain(object))
      return { outcome: warnings.length > 0 ? 'warned' : 'clean', warnings }
    } catch (error) {
      this.#failed(object.kind, error)
      return { outcome: 'failed', warnings: [] }
    }
  }

  /** Returns the object as it will be, or nothing if it is not of our kinds or is being deleted. */
  #readObject({ operation, object, oldObject }: Unknown): KubernetesObject | undefined {
    const { context, namespaces, isManaged } = this.#options
    const isDeletion = operation === 'DELETE'
    if (!isDeletion && operation !== 'CREATE' && operation !== 'UPDATE') return undefined
    const found = isDeletion ? oldObject : object
    if (!isObject(found) || !isObject(found['metadata']) || !isObject(found['spec'])) return undefined
    const { apiVersion, kind, metadata } = found
    if (!isText(kind) || !findKind(kind) || apiVersion !== `${context.group}/${VERSION}`) return undefined
    const { name, namespace, deletionTimestamp } = metadata as Unknown
    if (!isText(name) || !isText(namespace) || deletionTimestamp !== undefined) return undefined
    if (namespaces.length > 0 && !namespaces.includes(namespace)) return undefined
    if (!isManaged(found as unknown as KubernetesObject)) return undefined
    if (!isDeletion) return found as unknown as KubernetesObject
    return { ...found, metadata: { ...metadata, deletionTimestamp: NO_TIME } } as unknown as KubernetesObject
  }

  /** Throws if a check of the object takes longer than the API server waits. */
  async #explain(object: KubernetesObject): Promise<Explained> {
    const { view, contents, context, checks } = this.#options
    const { namespace = '' } = object.metadata
    const until = Date.now() + CHECKS_MS
    for (;;) {
      const explained = await onCurrentContents(view, contents, (tracked) =>
        checks.on(namespace, () => explainedPlan(object, overlayView(tracked, object), { ...context, now: NO_TIME })),
      )
      if (!('checked' in explained)) return explained.made
      const isDone = await Promise.race([explained.checked.then(() => true), pause(until - Date.now(), this.#never)])
      if (isDone !== true) throw new Error('its checks take longer than a review may')
    }
  }

  /** Logs each fault once, so that the author of such objects can't fill the log. */
  #failed(kind: string, error: unknown): void {
    const fault = `${kind} ${error instanceof Error ? error.message : String(error)}`.slice(0, 500)
    if (this.#faults.has(fault) || this.#faults.size >= MOST_FAULTS) return
    this.#faults.add(fault)
    this.#options.log.warn({ kind, err: error }, 'an object could not be reviewed: it is admitted without warnings')
  }
}

const isIt = (object: KubernetesObject, kind: string, namespace: string, name?: string) =>
  object.kind === kind &&
  object.metadata.namespace === namespace &&
  (name === undefined || object.metadata.name === name)

/** Returns the view with this object in it, without the pods' reports, which are about the object before. */
function overlayView(view: ClusterView, object: KubernetesObject): ClusterView {
  const alone = createObjectIndex(kinds)
  alone.put(object)
  const { namespace: own = '', name: ownName } = object.metadata
  return {
    ...view,
    get: (kind, namespace, name) =>
      isIt(object, kind.kind, namespace, name) ? (object as never) : view.get(kind, namespace, name),
    list(kind, namespace) {
      const listed = view.list(kind, namespace)
      if (!isIt(object, kind.kind, namespace)) return listed
      const others = listed.filter(({ metadata }) => metadata.name !== ownName)
      return [...others, object as never].sort((one, other) => byText(one.metadata.name, other.metadata.name))
    },
    referrers(kind, namespace, name) {
      const found = view.referrers(kind, namespace, name)
      if (namespace !== own) return found
      const others = found.filter((one) => one.kind !== object.kind || one.name !== ownName)
      return [...others, ...alone.referrers(kind.kind, namespace, name)].sort(byKindAndName)
    },
    observe: () => undefined,
    sources: () => undefined,
  }
}

/** The API server passes on 256 characters of a warning, and 4,096 of all (counted in bytes here). */
const LONGEST = 256
const MOST_BYTES = 4096
const MOST = 12
/** The API server drops a warning with a control character; the others would change a terminal. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu

interface Explained {
  readonly plan: Plan
  readonly problems: readonly Problem[]
}

function makePrintable(text: string): string {
  // The rest is cut off anyway.
  const characters = [
    ...text
      .slice(0, 2 * LONGEST + 2)
      .toWellFormed()
      .replace(UNPRINTABLE, ' '),
  ]
  return characters.length > LONGEST ? `${characters.slice(0, LONGEST - 1).join('')}…` : characters.join('')
}

/** Returns the first warnings that the API server accepts, and the number of those left out. */
function limitWarnings(texts: readonly string[], last: string): readonly string[] {
  const room = MOST_BYTES - 2 * Buffer.byteLength(last)
  const kept: string[] = []
  let bytes = 0
  for (const text of texts.slice(0, MOST).map(makePrintable)) {
    bytes += Buffer.byteLength(text)
    if (bytes > room) break
    kept.push(text)
  }
  const left = texts.length - kept.length
  return [...kept, ...(left > 0 ? [`and ${left} more`] : []), last]
}

/** Returns each problem as conditions will report it, with its consequence, or nothing if there is none. */
function buildWarnings(object: KubernetesObject, { plan, problems }: Explained): readonly string[] {
  const said = conditionProblems(plan)
  if (said.length === 0) return []
  const subject = `${object.kind} ${JSON.stringify(object.metadata.name)}`
  const texts = said.flatMap(({ condition, message }) => {
    const behind = problems.filter((problem) => problem.condition === condition)
    return behind.length > 0 ? behind.map((problem) => formatProblem(withoutSecrets(problem))) : [message]
  })
  return limitWarnings(
    texts.map((text) => `${subject}: ${text}`),
    makePrintable(`${subject} ${describeConsequence(said)}`),
  )
}

function describeConsequence(said: ReturnType<typeof conditionProblems>): string {
  const errors = said.filter(({ severity }) => severity === 'error')
  if (errors.length === 0) return 'takes effect except for that'
  return errors.every(({ condition }) => condition === 'ReferencesResolved')
    ? 'takes effect once that is there'
    : 'does not take effect until that is corrected; the previous version keeps running'
}

/** Warns of the objects that still refer to an object under deletion and so keep it. */
function warnOfDeletion(object: KubernetesObject, { plan }: Explained): readonly string[] {
  const blocked = plan.status.conditions.find(({ type }) => type === 'DeletionBlocked')
  if (!blocked) return []
  const subject = `${object.kind} ${JSON.stringify(object.metadata.name)}`
  return limitWarnings(
    [`${subject}: ${blocked.message}`],
    makePrintable(`${subject} is deleted when no object refers to it any more`),
  )
}
