import { maskSecrets } from '../../../dataplane/config/check/url.ts'
import type { KubernetesObject, ObjectName } from '../../model/view.ts'
import type { AdminPeer } from '../../render/network/network.ts'

/** A condition as the Kubernetes API conventions define it. */
export interface Condition {
  type: string
  status: 'True' | 'False' | 'Unknown'
  reason: string
  message: string
  observedGeneration?: number
  lastTransitionTime: string
}

/** An event to emit when the status of this plan differs from the current one. It is emitted on transitions only. */
export interface PlannedEvent {
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
  /** The type of the condition that tells the same under another reason. */
  readonly condition?: string
}

/** The fields of every status. Each kind adds its own. */
export interface PlannedStatus {
  readonly conditions: readonly Condition[]
  readonly observedGeneration: number
  readonly [field: string]: unknown
}

/** Everything that follows from one object and the cluster around it. What isn't in it should not exist. */
export interface Plan {
  /**
   * Every child object, in the order of apply. `hold` leaves existing children unchanged: the last good set keeps
   * running.
   */
  readonly children: readonly KubernetesObject[] | 'hold'
  readonly status: PlannedStatus
  readonly events: readonly PlannedEvent[]
  readonly finalizer: boolean
}

/** A plan and the problems that were found while it was built. */
export interface ExplainedPlan extends Plan {
  readonly problems: readonly Problem[]
  /** Returns the plan updated from what the view now shows of children and pods, after the children are written. */
  readonly refresh?: () => ExplainedPlan
}

/** A program that replaces a container. */
export interface ServerCommand {
  readonly command: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

/** The input of `reconcile` besides the object and the cluster view. */
export interface ReconcileContext {
  /** API group, also the prefix of annotations, labels and finalizers. */
  readonly group: string
  /** The time of this reconcile (RFC 3339), for conditions that change now. */
  readonly now: string
  readonly image: string
  /** Returns the base URL under which pods reach a Service that we render, without a trailing slash. */
  readonly resolveAddress: (service: {
    readonly namespace: string
    readonly name: string
    readonly port: number
  }) => string
  /** Returns the MCP endpoint of an MCPServer's own container. Absent, as in pods: `http://127.0.0.1:<port>/mcp`. */
  readonly serverUrl?: (server: { readonly namespace: string; readonly name: string; readonly port: number }) => string
  /** Returns the local command of a stdio MCPServer, standalone only. Absent, as in pods: the container beside it. */
  readonly serverCommand?: (server: { readonly namespace: string; readonly name: string }) => ServerCommand | undefined
  /** Returns the revision of Secret values on an MCPServer's pods. Absent: it is derived from the view. */
  readonly findSecretRevision?: (server: { readonly namespace: string; readonly name: string }) => string | undefined
  /**
   * True if pods are processes on the user's own machine. Then a loopback address is a remote server like any other.
   */
  readonly isOwnMachine?: boolean
  /** The peers of the pods' admin listeners. Absent: the operator as operator/deploy installs it. Never empty. */
  readonly adminPeers?: readonly AdminPeer[]
  /** The rights that a `podTemplateSpec` may ask for. Absent: what the Pod Security level `baseline` allows. */
  readonly podTemplate?: 'baseline' | 'any'
  /** The users of pods. Absent: our own. `platform` names none, for clusters that assign them (OpenShift). */
  readonly podUsers?: 'fixed' | 'platform'
}

/** The longest note that the API accepts (events.k8s.io/v1). */
const NOTE_LIMIT = 1024

export const formatEventNote = ({ message }: PlannedEvent): string => maskSecrets(message).slice(0, NOTE_LIMIT)

/** Conditions that a problem can make False. `Ready` reports the first of them in this order. */
export const problemConditions = ['Valid', 'ReferencesResolved', 'PodTemplateValid', 'ProofReady'] as const

type ProblemCondition = (typeof problemConditions)[number]

/** The problem and the object or field that has it. */
export interface ProblemDetail {
  readonly message: string
  readonly pointer?: string
  /** The separator of pointer and message in a text. The default is a colon and a space. */
  readonly joint?: ': ' | ' ' | ', '
  /** Another object that this one refers to and that the message is about. */
  readonly about?: ObjectName
}

export interface Problem extends ProblemDetail {
  readonly condition: ProblemCondition
  /** CamelCase, for programs. */
  readonly reason: string
}

export interface Problems {
  add(condition: ProblemCondition, reason: string, detail: ProblemDetail): void
  /** Records an invalid field. `joint` is a space by default, for a message that continues the pointer. */
  refuse(pointer: string, message: string, joint?: ProblemDetail['joint']): void
  /** The problems of one condition, in the order in which they were found, each text once. */
  of(condition: ProblemCondition): readonly Problem[]
  all(): readonly Problem[]
  readonly none: boolean
}

export function startProblems(): Problems {
  const found = new Map<string, Problem>()
  const of = (condition: ProblemCondition) => [...found.values()].filter((problem) => problem.condition === condition)
  const add: Problems['add'] = (condition, reason, detail) => {
    found.set(`${condition} ${formatProblem(detail)}`, { condition, reason, ...detail })
  }
  return {
    add,
    refuse: (pointer, message, joint = ' ') => add('Valid', 'ConfigInvalid', { pointer, joint, message }),
    of,
    all: () => problemConditions.flatMap(of),
    get none() {
      return found.size === 0
    },
  }
}

/** Returns a problem's text in a condition: the pointer, if there is one, and what is wrong. */
export const formatProblem = ({ pointer, joint = ': ', message }: ProblemDetail): string =>
  pointer === undefined || pointer === '' ? message : `${pointer}${joint}${message}`

export const formatProblems = (problems: readonly ProblemDetail[]): string => problems.map(formatProblem).join('; ')

/** Removes credentials and the secrets of URLs from a problem's text, as conditions do. */
export const withoutSecrets = (problem: Problem): Problem => ({
  ...problem,
  message: maskSecrets(problem.message),
})

/** The longest message that the API accepts (metav1.Condition). */
const MESSAGE = 32_768

/** The conditions of one object while its status is being built. */
export interface Conditions {
  /** Sets a condition. The last call for a type wins. */
  set(type: string, status: Condition['status'], reason: string, message: string): void
  get(type: string): Condition | undefined
  /** Keeps a condition from the object's current status, if there is one, for what is not known yet. */
  keep(type: string): void
  /** All conditions that were set, by type. Conditions that were not set are dropped from the status. */
  list(): readonly Condition[]
}

interface Conditioned {
  readonly metadata: { readonly generation?: number }
  readonly status?: { readonly conditions?: readonly unknown[] }
}

/** Returns the generation of an object. An object from a file has none and counts as just created. */
export const readGeneration = ({ metadata }: Pick<Conditioned, 'metadata'>): number => metadata.generation ?? 1

export const readConditions = ({
  status,
}: {
  readonly metadata: object
  readonly status?: unknown
}): readonly Condition[] => (status as { readonly conditions?: readonly Condition[] } | undefined)?.conditions ?? []

/** Tells whether no operator has written the status of an object yet. The API server's default names generation 0. */
export const lacksStatus = ({ status }: { readonly metadata: object; readonly status?: unknown }): boolean =>
  status === undefined || (status as { readonly observedGeneration?: number }).observedGeneration === 0

/**
 * Starts the conditions of an object. `lastTransitionTime` is kept while the status stays the same, else it is `now`
 * (RFC 3339).
 */
export function startConditions(object: Conditioned, now: string): Conditions {
  const before = new Map<string, Condition>()
  for (const condition of readConditions(object)) before.set(condition.type, condition)
  const observedGeneration = readGeneration(object)
  const found = new Map<string, Condition>()
  return {
    set(type, status, reason, given) {
      const message = maskSecrets(given)
      const previous = before.get(type)
      const lastTransitionTime = previous?.status === status ? previous.lastTransitionTime : now
      const text = message.length > MESSAGE ? `${message.slice(0, MESSAGE - 1)}…` : message
      found.set(type, { type, status, reason, message: text, observedGeneration, lastTransitionTime })
    },
    get: (type) => found.get(type),
    keep(type) {
      const previous = before.get(type)
      if (previous !== undefined) found.set(type, previous)
    },
    list: () => [...found.values()].sort((a, b) => (a.type < b.type ? -1 : 1)),
  }
}

/** Conditions that keep an object from being served in its current form when they are False. */
const decisive: ReadonlySet<string> = new Set(problemConditions)
/** Tells whether a condition reports a problem when it is True. All others do when they are False. */
const isWarningType = (type: string) => /(Warning|Conflict|Taken|Synthesized|Truncated)$/.test(type)
/** Reasons for `Ready` = False that are no problem. */
const transient = new Set(['Progressing', 'Terminating'])

export interface ConditionProblem {
  readonly condition: string
  readonly severity: 'error' | 'warning'
  readonly reason: string
  readonly message: string
}

interface WithConditions {
  readonly status: { readonly conditions: readonly Condition[] }
}

/** Collects the problems that the conditions of a plan or an object report, each text once. */
export function conditionProblems({ status }: WithConditions): readonly ConditionProblem[] {
  const found: ConditionProblem[] = []
  const add = (severity: ConditionProblem['severity'], { type, reason, message }: Condition) => {
    if (!found.some((problem) => problem.message === message))
      found.push({ condition: type, severity, reason, message })
  }
  const { conditions } = status
  for (const condition of conditions) {
    if (decisive.has(condition.type) && condition.status === 'False') add('error', condition)
  }
  const ready = conditions.find(({ type }) => type === 'Ready')
  if (found.length === 0 && ready?.status === 'False' && !transient.has(ready.reason)) add('error', ready)
  for (const condition of conditions) {
    const { type } = condition
    const isWarning = condition.status === (isWarningType(type) ? 'True' : 'False')
    if (isWarning && type !== 'Ready' && !decisive.has(type)) add('warning', condition)
  }
  return found
}

/** The reasons of the conditions above when they are True. `ProofReady` is True only where proofs are read. */
const trueReasons = { Valid: 'ConfigValid', ReferencesResolved: 'AllFound', PodTemplateValid: 'TemplateValid' } as const

/** Sets each of these conditions: False with its problems, or else True. */
export function setProblemConditions(
  types: readonly ProblemCondition[],
  problems: Problems,
  conditions: Conditions,
): void {
  for (const type of types) {
    const found = problems.of(type)
    if (found[0] !== undefined) conditions.set(type, 'False', found[0].reason, formatProblems(found))
    else if (type !== 'ProofReady') conditions.set(type, 'True', trueReasons[type], '')
  }
}

/** Sets `SettingsWarning` for fields that have no effect beside the others, so that nothing is ignored silently. */
export function warnOfNoEffect(found: readonly ProblemDetail[], conditions: Conditions): void {
  if (found.length > 0) conditions.set('SettingsWarning', 'True', 'NoEffect', formatProblems(found))
}
