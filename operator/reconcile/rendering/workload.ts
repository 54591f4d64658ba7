import type { MCPRegistry, MCPRemoteProxy, MCPServer, VirtualMCPServer } from '../../../crds/index.ts'
import type { KubernetesObject, WorkloadObservation } from '../../model/view.ts'
import { CONFIG_BYTES, type RenderedConfig } from '../../render/object/object.ts'
import { accountUses } from '../../render/pod/pod-security.ts'
import { findTakenPortNames } from '../../render/pod/pod-template.ts'
import { buildDefinitionEvents } from '../configs/mcp-pin.ts'
import {
  type Conditions,
  type ExplainedPlan,
  formatProblems,
  type PlannedEvent,
  type Problem,
  problemConditions,
  type ReconcileContext,
  readGeneration,
  setProblemConditions,
  startConditions,
} from '../outcome/plan.ts'
import type { Resolver } from '../references/references.ts'

type WorkloadObject = MCPServer | MCPRemoteProxy | VirtualMCPServer | MCPRegistry

/** A complete set of children, and the addresses for the status. */
export interface Rendered {
  readonly children: readonly KubernetesObject[]
  readonly config: RenderedConfig
  readonly url: string
  readonly externalUrl: string | undefined
}

interface WorkloadPlan {
  readonly object: WorkloadObject
  readonly resolver: Resolver
  readonly context: ReconcileContext
  /** Renders the children. It is called if no problem is known, and may find some. */
  readonly render: () => Rendered
  /** Pods that the spec asks for; absent if an autoscaler or a user scales the workload. */
  readonly replicas?: number | undefined
  /** Sets the kind's own conditions, besides those of every workload. It finds no new problems. */
  readonly extra?: ((conditions: Conditions, seen: WorkloadObservation | undefined) => void) | undefined
  /** The kind's own fields of the status that describe the served set of children. They are held together with it. */
  readonly status?: object | undefined
  /** Fields of the status with the current state of the served set of children, whether or not it is the new one. */
  readonly observed?:
    | ((served: Readonly<Record<string, unknown>>, seen: WorkloadObservation | undefined) => object | undefined)
    | undefined
}

interface Readiness {
  readonly status: 'True' | 'False' | 'Unknown'
  readonly reason: string
  readonly message: string
  readonly phase: 'Pending' | 'Ready' | 'Degraded' | 'Failed' | 'Stopped' | 'Terminating'
}

/** The syntax of a condition's reason in the API. A container runtime's own reason may be any text. */
const REASON = /^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/

/** Returns the readiness that the pods report: Unknown without an observation, offline and before the first start. */
function readPodReadiness(seen: WorkloadObservation | undefined, replicas: number | undefined): Readiness {
  if (replicas === 0 || (replicas === undefined && seen?.replicas === 0))
    return { status: 'True', reason: 'Stopped', message: 'scaled to zero', phase: 'Stopped' }
  if (!seen) return { status: 'Unknown', reason: 'NotObserved', message: 'no pods were observed yet', phase: 'Pending' }
  const { rollout, reason = 'Progressing' } = seen
  const counts = `${seen.readyReplicas} of ${seen.replicas} pods are ready`
  const isServed = seen.readyReplicas > 0 && seen.readyReplicas >= seen.replicas
  if (isServed && rollout === undefined) return { status: 'True', reason: 'PodsReady', message: counts, phase: 'Ready' }
  const progress = rollout === undefined || !isServed ? counts : `${counts}, ${rollout}`
  const message = seen.message === undefined ? progress : `${progress}: ${seen.message}`
  const stuck = seen.reason === undefined ? 'Pending' : 'Failed'
  const isWell = isServed && seen.reason === undefined
  const phase = seen.readyReplicas > 0 && !isWell ? 'Degraded' : stuck
  return { status: 'False', reason: REASON.test(reason) ? reason : 'PodsNotReady', message, phase }
}

/** Sets `Progressing` while some of the newest pods are missing, with the cause; absent otherwise. */
function reportProgress(
  { object, replicas }: WorkloadPlan,
  seen: WorkloadObservation | undefined,
  conditions: Conditions,
) {
  if (object.metadata.deletionTimestamp !== undefined) return
  const { status, reason, message } = readPodReadiness(seen, replicas)
  if (status === 'False') conditions.set('Progressing', 'True', reason, message)
}

function findReadiness(
  plan: WorkloadPlan,
  problems: readonly Problem[],
  seen: WorkloadObservation | undefined,
): Readiness {
  if (plan.object.metadata.deletionTimestamp !== undefined)
    return { status: 'False', reason: 'Terminating', message: 'being deleted', phase: 'Terminating' }
  const first = problems[0]
  if (first === undefined) return readPodReadiness(seen, plan.replicas)
  const kept = seen === undefined ? '' : '; the running pods keep the last valid configuration'
  return { status: 'False', reason: first.reason, message: formatProblems(problems) + kept, phase: 'Failed' }
}

/** Returns an event for `Ready`, and one for each other condition that reports something as not served. */
function buildEvents(ready: Readiness, conditions: Conditions): readonly PlannedEvent[] {
  if (ready.status === 'Unknown' || ready.phase === 'Terminating') return []
  const { reason, message } = ready
  const parts = ['BackendsReady', 'CompositeToolsReady', 'SourcesSynced', 'RouteAccepted'].map((type) =>
    conditions.get(type),
  )
  // Starting pods are no reason for a warning.
  const isOrdinary = ready.status === 'True' || ready.phase === 'Pending'
  return [
    { type: isOrdinary ? 'Normal' : 'Warning', reason, message },
    ...parts.flatMap((part) =>
      part?.status === 'False' ? [{ type: 'Warning' as const, reason: part.reason, message: part.message }] : [],
    ),
    ...['PodStatusUnknown', 'AuditLogUnavailable'].flatMap((type) => {
      const seen = conditions.get(type)
      return seen ? [{ type: 'Warning' as const, reason: seen.reason, message: seen.message }] : []
    }),
  ]
}

/** Renders the children unless a problem is known. If rendering finds one, it is recorded and the result dropped. */
function renderGood({ resolver: { problems }, object, render }: WorkloadPlan): Rendered | undefined {
  if (!problems.none || object.metadata.deletionTimestamp !== undefined) return undefined
  const rendered = render()
  const { bytes, pinBytes } = rendered.config
  const pins =
    pinBytes > 0
      ? `: pins of definitions take ${pinBytes} of them; approve fewer, or spread servers over more groups`
      : ''
  if (bytes > CONFIG_BYTES)
    problems.add('Valid', 'ConfigTooLarge', {
      message: `the rendered configuration has ${bytes} bytes; at most ${CONFIG_BYTES} fit${pins}`,
    })
  return problems.none ? rendered : undefined
}

/** Sets `RouteAccepted` from what the Gateways report of the HTTPRoute. */
function reportRoute(object: WorkloadObject, seen: WorkloadObservation | undefined, conditions: Conditions): void {
  if (object.spec.httpRoute === undefined) return
  const { gateways, accepted, refusals } = seen?.route ?? { gateways: 0, accepted: 0, refusals: [] }
  const counts = `${accepted} of ${gateways} Gateways carry the HTTPRoute`
  if (!seen?.route) conditions.set('RouteAccepted', 'Unknown', 'NotObserved', 'no HTTPRoute was observed yet')
  else if (refusals.length > 0) conditions.set('RouteAccepted', 'False', 'RouteRefused', refusals.join('; '))
  else if (accepted < gateways) conditions.set('RouteAccepted', 'Unknown', 'NoAnswer', counts)
  else conditions.set('RouteAccepted', 'True', 'RouteAccepted', counts)
}

/** Warns of a pod template that uses a ServiceAccount, because its author may not hold the rights of that account. */
function warnOfAccounts({ spec }: WorkloadObject, conditions: Conditions): void {
  const uses = accountUses(spec.podTemplateSpec).map((text) => `/spec/podTemplateSpec${text}`)
  if (uses.length > 0) conditions.set('PodTemplateWarning', 'True', 'ServiceAccountInTemplate', uses.join('; '))
}

/** Warns of a user's port with the name of one of ours. It is served: we never look up a port by such a name. */
function warnOfPortNames({ kind, spec }: WorkloadObject, conditions: Conditions): void {
  const taken = findTakenPortNames(kind, spec.podTemplateSpec)
  if (taken.length === 0) return
  const texts = taken.map(({ pointer, message }) => `/spec/podTemplateSpec${pointer}: ${message}`)
  conditions.set('PortNameTaken', 'True', 'PortNameTaken', texts.join('; '))
}

/** Returns the status fields of the served set of children: the new set, or the last good one from the status. */
function findServedFields(plan: WorkloadPlan, rendered: Rendered | undefined): Readonly<Record<string, unknown>> {
  if (rendered) {
    const { url, externalUrl, config } = rendered
    return { url, ...(externalUrl === undefined ? {} : { externalUrl }), configHash: config.hash, ...plan.status }
  }
  const last = (plan.object.status ?? {}) as Record<string, unknown>
  const names = ['url', 'externalUrl', 'configHash', ...Object.keys(plan.status ?? {})]
  return Object.fromEntries(names.filter((name) => last[name] !== undefined).map((name) => [name, last[name]]))
}

/**
 * Plans a workload. With any problem the children are held: running pods and status keep the last good configuration.
 * Observations never influence what is rendered.
 */
export function planWorkload(plan: WorkloadPlan): ExplainedPlan {
  const rendered = renderGood(plan)
  const refresh = (): ExplainedPlan => ({ ...buildPlan(plan, rendered), refresh })
  return refresh()
}

/** Conditions that only pods can report. */
const REPORTED_BY_PODS = [
  'AggregationConflict',
  'AuditLogUnavailable',
  'BackendsHealthy',
  'CatalogGate',
  'EntriesValid',
] as const

function buildPlan(plan: WorkloadPlan, rendered: Rendered | undefined): ExplainedPlan {
  const { object, context } = plan
  const { view, problems } = plan.resolver
  const { kind, metadata } = object
  const seen = view.observe(kind, metadata.namespace, metadata.name)
  const conditions = startConditions(object, context.now)
  setProblemConditions(problemConditions, problems, conditions)
  plan.extra?.(conditions, seen)
  warnOfAccounts(object, conditions)
  warnOfPortNames(object, conditions)
  if (seen?.unanswered !== undefined)
    conditions.set(
      'PodStatusUnknown',
      'True',
      'PodsNotAsked',
      `pods don’t report their status, so the configuration in force is not known: ${seen.unanswered}`,
    )
  if (seen?.auditLog !== undefined)
    conditions.set(
      'AuditLogUnavailable',
      'True',
      'AuditLogNotWritten',
      `calls are served, but their audit lines may be lost: ${seen.auditLog.join('; ')}`,
    )
  if (seen?.entries !== undefined)
    conditions.set(
      'EntriesValid',
      'False',
      'EntryInvalid',
      `entries that clients could not read are left out: ${seen.entries.join('; ')}`,
    )
  // Until the pods have reported to this operator, their reports to the previous operator stay valid.
  if (seen?.reported !== true) for (const type of REPORTED_BY_PODS) if (!conditions.get(type)) conditions.keep(type)
  reportRoute(object, seen, conditions)
  const ready = findReadiness(plan, problems.all(), seen)
  const inForce = findServedFields(plan, rendered)
  conditions.set('Ready', ready.status, ready.reason, ready.message)
  reportProgress(plan, seen, conditions)
  // kstatus: `Stalled` if waiting won't help, `Reconciling` if it will; absent otherwise.
  const waits = problems.all().every(({ condition }) => condition === 'ReferencesResolved')
  if (!waits) conditions.set('Stalled', 'True', ready.reason, ready.message)
  else if (ready.status !== 'True') conditions.set('Reconciling', 'True', ready.reason, ready.message)
  return {
    children: rendered?.children ?? 'hold',
    status: {
      conditions: conditions.list(),
      observedGeneration: readGeneration(object),
      phase: ready.phase,
      ...(ready.message === '' ? {} : { message: conditions.get('Ready')?.message }),
      ...inForce,
      ...plan.observed?.(inForce, seen),
      ...(seen === undefined ? {} : { replicas: seen.replicas, readyReplicas: seen.readyReplicas }),
    },
    events: [...buildEvents(ready, conditions), ...buildDefinitionEvents(object, conditions)],
    finalizer: false,
    problems: problems.all(),
  }
}
