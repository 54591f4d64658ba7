import { type MCPServerEntry, mcpGroup, mcpServerEntry } from '../../../crds/index.ts'
import { backendFindings } from '../../../dataplane/config/check/gateway.ts'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import type { ClusterView } from '../../model/view.ts'
import { type Mounts, startMounts } from '../../render/pod/containers.ts'
import { setReadiness } from '../configs/config.ts'
import {
  buildDefinitionEvents,
  buildMemberPinning,
  buildServerPinning,
  type PinState,
  readGatewayPinning,
  readPinningMode,
  reportDefinitions,
} from '../configs/mcp-pin.ts'
import { checkSupported, noteInvalid, validatePart } from '../outcome/findings.ts'
import {
  type Conditions,
  type ExplainedPlan,
  type Problems,
  type ReconcileContext,
  readGeneration,
  startConditions,
} from '../outcome/plan.ts'
import { type Resolver, startResolver } from '../references/references.ts'
import { buildRemoteBackend, checkCredential, checkRemoteUrl } from '../rendering/backend.ts'
import { listGateways } from '../rendering/shared-settings.ts'

/** Builds a gateway's backend from an entry. */
export const buildEntryBackend = (
  { metadata, spec }: MCPServerEntry,
  resolver: Resolver,
  mounts: Mounts,
  context: ReconcileContext,
): BackendConfig => ({ name: metadata.name, ...buildRemoteBackend(spec, resolver, mounts, context) })

/** Finds everything that keeps an entry from being served; its credential only with `credentials`. */
export function checkEntry(
  object: MCPServerEntry,
  resolver: Resolver,
  context: ReconcileContext,
  options: { credentials: boolean },
): void {
  const { problems } = resolver
  checkSupported(mcpServerEntry, object, problems)
  if (options.credentials) checkCredential(object.spec.externalAuthConfigRef, resolver)
  resolver.object(mcpGroup, object.spec.groupRef.name)
  checkRemoteUrl(object.spec, context, problems)
  const backend = buildEntryBackend(object, resolver, startMounts('config'), context)
  for (const { pointer, message } of backendFindings(backend, ''))
    problems.add('Valid', 'ConfigInvalid', { message: `${pointer} ${message}` })
  if (problems.none) noteInvalid(validatePart({ backends: [backend] }, PLACES), problems)
}

/** Returns the pinning of the entry at each gateway of the group, and what the gateway's pods report of it. */
function readGatewayPins(object: MCPServerEntry, resolver: Resolver): readonly PinState[] {
  const { view, namespace } = resolver
  const { name } = object.metadata
  const gateways = listGateways(object.spec.groupRef.name, view, namespace)
  const own = buildServerPinning(object, resolver).pinning
  if (gateways.length === 0)
    return [{ name, mode: readPinningMode(object), isPinned: own?.pins !== undefined, seen: undefined }]
  return gateways.map(({ kind, metadata, spec }) => {
    const { pinning } = buildMemberPinning(object, readGatewayPinning(spec.config), resolver)
    const seen = view.observe(kind, namespace, metadata.name)?.definitions?.find((one) => one.name === name)
    return { name, mode: pinning?.mode ?? 'disabled', isPinned: pinning?.pins !== undefined, seen }
  })
}

/** Sets `DefinitionsApproved` of an entry, by the gateway that withholds most. */
function reportEntry(held: readonly PinState[], problems: Problems, conditions: Conditions): void {
  const active = held.filter(({ mode }) => mode !== 'disabled')
  const worst = active.toSorted((a, b) => (b.seen?.withheld ?? -1) - (a.seen?.withheld ?? -1))[0]
  if (worst) reportDefinitions([worst], { isOfGateway: false, problems }, conditions)
}

const PLACES = {
  '/backends/0/url': '/spec/remoteUrl',
  '/backends/0/headers': '/spec/headerForward/addPlaintextHeaders',
  '/backends/0': '/spec',
}

/** Plans an entry: a remote server in a group. It has no pods; the gateways of the group call it. */
export function reconcileMcpServerEntry(
  object: MCPServerEntry,
  view: ClusterView,
  context: ReconcileContext,
): ExplainedPlan {
  const resolver = startResolver(view, object.metadata.namespace)
  const { problems } = resolver
  checkEntry(object, resolver, context, { credentials: true })
  const conditions = startConditions(object, context.now)
  reportEntry(readGatewayPins(object, resolver), problems, conditions)
  const events = [...setReadiness(problems, conditions), ...buildDefinitionEvents(object, conditions)]
  return {
    children: [],
    status: {
      conditions: conditions.list(),
      observedGeneration: readGeneration(object),
      phase: problems.none ? 'Valid' : 'Failed',
    },
    events,
    finalizer: false,
    problems: problems.all(),
  }
}
