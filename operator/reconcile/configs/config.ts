import type { KindDeclaration, ObjectOf } from '../../../crds/define.ts'
import type { ClusterView, ObjectName } from '../../model/view.ts'
import { hashValue } from '../../render/object/canonical.ts'
import {
  type Conditions,
  type ExplainedPlan,
  formatProblems,
  type PlannedEvent,
  type PlannedStatus,
  type ProblemDetail,
  type Problems,
  type ReconcileContext,
  readGeneration,
  setProblemConditions,
  startConditions,
  warnOfNoEffect,
} from '../outcome/plan.ts'
import { type CheckConfig, startResolver } from '../references/references.ts'

const formatObjectName = ({ kind, name }: ObjectName) => `${kind} ${JSON.stringify(name)}`

/** The highest number of objects that a message names as blocking a deletion. */
const NAMED = 20

function formatHolders(referrers: readonly ObjectName[]): string {
  const rest = referrers.length - NAMED
  return `still used by ${referrers.slice(0, NAMED).map(formatObjectName).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`
}

/** Sets `DeletionBlocked` while another object still names one that is being deleted. Returns the event for it. */
export function reportBlockedDeletion(
  object: { readonly metadata: { readonly deletionTimestamp?: string } },
  referrers: readonly ObjectName[],
  conditions: Conditions,
): readonly PlannedEvent[] {
  if (object.metadata.deletionTimestamp === undefined || referrers.length === 0) return []
  const message = formatHolders(referrers)
  conditions.set('DeletionBlocked', 'True', 'StillReferenced', message)
  return [{ type: 'Warning', reason: 'DeletionBlocked', message }]
}

/** Sets `Valid`, `ReferencesResolved` and `Ready` of an object without pods. */
export function setReadiness(problems: Problems, conditions: Conditions): readonly PlannedEvent[] {
  setProblemConditions(['Valid', 'ReferencesResolved'], problems, conditions)
  const all = problems.all()
  const reason = all[0]?.reason
  if (reason === undefined) {
    conditions.set('Ready', 'True', 'Ready', '')
    return []
  }
  const message = formatProblems(all)
  conditions.set('Ready', 'False', reason, message)
  // kstatus: `Stalled` means that waiting won't help. A missing reference may still appear.
  if (conditions.get('Valid')?.status === 'False') conditions.set('Stalled', 'True', reason, message)
  return [{ type: 'Warning', reason, message }]
}

interface ConfigObject {
  readonly metadata: { readonly generation?: number }
  readonly spec: unknown
  readonly status?: { readonly configHash?: string; readonly configHashTime?: string }
}

/** Returns the time at which the hash changed: the recorded time while the hash stays the same. */
function hashTime({ status: before }: ConfigObject, hash: string, now: string): ConfigObject['status'] {
  if (before?.configHash !== hash) return { configHashTime: now }
  // A hash that was recorded without its time gets none: the time is unknown, and setting it would write every config.
  return before.configHashTime === undefined ? {} : { configHashTime: before.configHashTime }
}

/** Builds the status of an object without pods: conditions, the hash of its spec, and the objects that use it. */
export function buildConfigStatus(
  object: ConfigObject,
  conditions: Conditions,
  users: readonly ObjectName[],
  now: string,
): PlannedStatus {
  const configHash = hashValue(object.spec)
  return {
    conditions: conditions.list(),
    configHash,
    ...hashTime(object, configHash, now),
    observedGeneration: readGeneration(object),
    referencingWorkloads: users,
    referencingWorkloadCount: users.length,
  }
}

/**
 * Plans a config kind: no children; conditions, hash of the spec and referrers. The finalizer stays while any object
 * names the config. `findUnused` finds fields without effect; `report` sets further conditions.
 */
export function planConfig<K extends KindDeclaration>(
  kind: K,
  check: CheckConfig<K>,
  findUnused: (object: ObjectOf<K>) => readonly ProblemDetail[] = () => [],
  report: (object: ObjectOf<K>, conditions: Conditions) => void = () => undefined,
): (object: ObjectOf<K>, view: ClusterView, context: ReconcileContext) => ExplainedPlan {
  return (object, view, context) => {
    const { namespace, name } = object.metadata
    const conditions = startConditions(object, context.now)
    const resolver = startResolver(view, namespace)
    const { problems } = resolver
    check(object, resolver)
    warnOfNoEffect(findUnused(object), conditions)
    report(object, conditions)
    const referrers = view.referrers(kind, namespace, name)
    const events = [...setReadiness(problems, conditions), ...reportBlockedDeletion(object, referrers, conditions)]
    return {
      children: [],
      status: buildConfigStatus(object, conditions, referrers, context.now),
      events,
      finalizer: referrers.length > 0,
      problems: problems.all(),
    }
  }
}
