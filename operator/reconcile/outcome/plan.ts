import { withoutUrlSecrets } from '../../../dataplane/config/url-secrets.ts'
import type { KubernetesObject } from '../../model/view.ts'
import type { AdminPeer } from '../../render/network/admin-peers.ts'
import type { Problem } from './problems.ts'

/** A condition as the Kubernetes API conventions define it. */
export interface Condition {
  type: string
  status: 'True' | 'False' | 'Unknown'
  reason: string
  message: string
  observedGeneration?: number
  lastTransitionTime: string
}

/** An event that is due when the status of this plan differs from what is there; the runtime emits it on transition only. */
export interface PlannedEvent {
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
}

/** What every status has; the other fields are those of the kind. */
export interface PlannedStatus {
  readonly conditions: readonly Condition[]
  readonly observedGeneration: number
  readonly [field: string]: unknown
}

/** Everything that follows from one object and the world around it. Complete: what isn't in it should not be there. */
export interface Plan {
  /**
   * Every child object, in the order of their application; `hold` leaves whatever is there as it is, because a valid
   * set can't be built now and the last good one must keep running.
   */
  readonly children: readonly KubernetesObject[] | 'hold'
  /** The whole status. */
  readonly status: PlannedStatus
  readonly events: readonly PlannedEvent[]
  /** Whether our finalizer should be on the object. Absent on an object under deletion: it may go. */
  readonly finalizer: boolean
}

/** A plan, and what was found wrong while it was made. */
export interface ExplainedPlan extends Plan {
  readonly problems: readonly Problem[]
  /**
   * The same plan with the status and events of what the view shows by now of the object's own children and pods: for when
   * the children have been written. Absent where nothing of the status comes from them.
   */
  readonly retold?: () => ExplainedPlan
}

/** A program in the place of a container. */
export interface ServerCommand {
  readonly command: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

/** What `reconcile` is handed besides the object and the world. */
export interface ReconcileContext {
  /** API group, also the prefix of annotations, labels and finalizers. */
  readonly group: string
  /** The time of this reconcile (RFC 3339), for conditions that change now. */
  readonly now: string
  /** Image of the data plane. */
  readonly image: string
  /** Base URL under which pods reach a Service that we render, without a trailing slash. */
  readonly addressOf: (service: { readonly namespace: string; readonly name: string; readonly port: number }) => string
  /**
   * MCP endpoint of an MCPServer's own container as our data plane beside it reaches it. Absent, as in pods:
   * `http://127.0.0.1:<port>/mcp`. Standalone, where servers share one machine, tells where it started this one.
   */
  readonly serverUrl?: (server: { readonly namespace: string; readonly name: string; readonly port: number }) => string
  /**
   * How our data plane starts an MCPServer that speaks on its standard input and output. Absent, as in pods: it
   * attaches to the container beside it. Standalone, where there are no containers, tells the local command.
   */
  readonly serverCommand?: (server: { readonly namespace: string; readonly name: string }) => ServerCommand | undefined
  /**
   * The revision of the values of Secrets that the pods of an MCPServer have, for those who can't tell it from the values;
   * undefined where it is not known. Absent: it is made of what the view knows.
   */
  readonly secretRevisionOf?: (server: { readonly namespace: string; readonly name: string }) => string | undefined
  /**
   * Pods are processes of the very machine whose user wrote the manifests: what listens on its loopback address is a
   * remote server like any other. In a pod that address would be the pod's own, which nobody is let at.
   */
  readonly isOwnMachine?: boolean
  /** Who reaches the admin listeners of pods; absent: the operator where operator/deploy installs it. Never empty. */
  readonly adminPeers?: readonly AdminPeer[]
  /** What a `podTemplateSpec` may ask for; absent: what the Pod Security level `baseline` allows. */
  readonly podTemplate?: 'baseline' | 'any'
  /** Who pods run as; absent: users and groups of ours. `platform` names none, for clusters that allot them (OpenShift). */
  readonly podUsers?: 'fixed' | 'platform'
}

/** Longest note that the API takes (events.k8s.io/v1). */
const NOTE_LIMIT = 1024

/** What an Event tells, without what keys stand in. */
export const eventNote = ({ message }: PlannedEvent): string => withoutUrlSecrets(message).slice(0, NOTE_LIMIT)
