import { type KindName, type MCPPin, mcpGroup, mcpPin, mcpServerEntry } from '../../../crds/index.ts'
import { kinds } from '../../../crds/kinds/index.ts'
import { PIN_LISTS, pinLimits } from '../../../crds/settings/gateway/pinning.ts'
import { byText } from '../../model/index.ts'
import type { ClusterView, ObjectName } from '../../model/view.ts'
import { hashOf } from '../../render/object/canonical.ts'
import {
  type ExplainedPlan,
  type Problems,
  type ReconcileContext,
  readGeneration,
  startConditions,
  startProblems,
} from '../outcome/plan.ts'
import { startResolver } from '../references/resolver.ts'
import { hashTime, settle } from './config.ts'

type Spec = MCPPin['spec']

/** The bytes of specs as JSON. A spec of a view does not change, and many plans look at it. */
const sizes = new WeakMap<Spec, number>()

function measureSpec(spec: Spec): number {
  let bytes = sizes.get(spec)
  if (bytes === undefined) sizes.set(spec, (bytes = Buffer.byteLength(JSON.stringify(spec))))
  return bytes
}

/** Finds what is wrong with pins beyond their schema. The schema can't bound the size of the whole. */
export function checkPins({ spec }: MCPPin, problems: Problems): void {
  const bytes = measureSpec(spec)
  if (bytes > pinLimits.bytes)
    problems.add('Valid', 'PinsInvalid', {
      message: `the spec has ${bytes} bytes; at most ${pinLimits.bytes} are read: use several MCPPins`,
    })
  const items = PIN_LISTS.reduce((sum, name) => sum + (spec[name]?.length ?? 0), 0)
  if (items > pinLimits.items)
    problems.add('Valid', 'PinsInvalid', {
      message: `the spec has ${items} pins; at most ${pinLimits.items} are read: use several MCPPins`,
    })
}

/** Returns the MCPPins of a server, by name. One that is being deleted approves nothing any more. */
export const pinsFor = (view: ClusterView, { kind, namespace, name }: Target): readonly MCPPin[] =>
  view.referrers(kinds[kind], namespace, name).flatMap((referrer) => {
    const pin = referrer.kind === 'MCPPin' ? view.get(mcpPin, namespace, referrer.name) : undefined
    return pin === undefined || pin.metadata.deletionTimestamp !== undefined ? [] : [pin]
  })

export interface Target {
  readonly kind: Extract<KindName, Spec['targetRef']['kind']>
  readonly namespace: string
  readonly name: string
}

/** Returns what is held to the pins: the server, and the gateways in whose pods an entry's definitions arrive. */
function heldTo(view: ClusterView, { kind, namespace, name }: Target): readonly ObjectName[] {
  const target = view.get(kinds[kind], namespace, name)
  if (target === undefined) return []
  const entry = kind === 'MCPServerEntry' ? view.get(mcpServerEntry, namespace, name) : undefined
  const gateways =
    entry === undefined
      ? []
      : view.referrers(mcpGroup, namespace, entry.spec.groupRef.name).filter((one) => one.kind === 'VirtualMCPServer')
  return [{ kind, name }, ...gateways].sort((a, b) => byText(a.kind, b.kind) || byText(a.name, b.name))
}

/**
 * Plans an MCPPin: whether it is valid, its server is there, and who is held to it. What a deleted one approved is
 * withheld.
 */
export function reconcileMcpPin(object: MCPPin, view: ClusterView, context: ReconcileContext): ExplainedPlan {
  const { namespace } = object.metadata
  const { kind, name } = object.spec.targetRef
  const problems = startProblems()
  const resolver = startResolver(view, namespace, problems)
  checkPins(object, problems)
  resolver.object(kinds[kind], name)
  const conditions = startConditions(object, context.now)
  const events = settle(problems, conditions)
  const holders = heldTo(view, { kind, namespace, name })
  const configHash = hashOf(object.spec)
  return {
    children: [],
    status: {
      conditions: conditions.list(),
      configHash,
      ...hashTime(object.status, configHash, context.now),
      observedGeneration: readGeneration(object),
      referencingWorkloads: holders,
      referencingWorkloadCount: holders.length,
    },
    events,
    finalizer: false,
    problems: problems.all(),
  }
}
