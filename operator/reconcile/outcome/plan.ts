import { withoutUrlSecrets } from '../../../dataplane/config/check/url.ts'
import type { KubernetesObject } from '../../model/view.ts'
import type { AdminPeer } from '../../render/network/network-policy.ts'
import type { Problem } from './conditions.ts'

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
  readonly retold?: () => ExplainedPlan
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
  readonly addressOf: (service: { readonly namespace: string; readonly name: string; readonly port: number }) => string
  /** Returns the MCP endpoint of an MCPServer's own container. Absent, as in pods: `http://127.0.0.1:<port>/mcp`. */
  readonly serverUrl?: (server: { readonly namespace: string; readonly name: string; readonly port: number }) => string
  /** Returns the local command of a stdio MCPServer, standalone only. Absent, as in pods: the container beside it. */
  readonly serverCommand?: (server: { readonly namespace: string; readonly name: string }) => ServerCommand | undefined
  /** Returns the revision of Secret values on an MCPServer's pods. Absent: it is derived from the view. */
  readonly secretRevisionOf?: (server: { readonly namespace: string; readonly name: string }) => string | undefined
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

export const eventNote = ({ message }: PlannedEvent): string => withoutUrlSecrets(message).slice(0, NOTE_LIMIT)
