import type { MCPRemoteProxy, MCPServer, MCPServerEntry, VirtualMCPServer } from '../../../crds/index.ts'
import { catalogGate } from '../../../crds/settings/gateway/catalog-gate.ts'
import { gateDefaults } from '../../../crds/settings/gateway/defaults.ts'
import type { CatalogGateConfig, GatewayConfig } from '../../../dataplane/config/gateway.ts'
import type { WorkloadObservation } from '../../model/view.ts'
import { registryListeners } from '../../render/network/network.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import type { Conditions, ProblemDetail, ReconcileContext } from '../outcome/plan.ts'
import { type MountPlace, mountSettings } from '../references/references.ts'
import { buildAddress } from '../rendering/shared-settings.ts'
import { findImage } from './mcp-server.ts'

type Gate = NonNullable<NonNullable<VirtualMCPServer['spec']['config']>['catalogGate']>
export type CatalogIdentity = NonNullable<CatalogGateConfig['members']>[number]

/** Tells whether registries are asked at all. */
const isGated = (gate: Gate | undefined): gate is Gate => gate !== undefined && gate.mode !== 'disabled'

/** Returns the settings that have no effect while no registry is asked. */
export function findUnusedGateSettings(gate: Gate | undefined): readonly ProblemDetail[] {
  if (gate === undefined || isGated(gate)) return []
  return (['match', 'onUnavailable', 'maxStale'] as const)
    .filter((field) => gate[field] !== gateDefaults[field])
    .map((field) => ({
      pointer: `/spec/config/catalogGate/${field}`,
      joint: ' ',
      message: 'has no effect: mode is disabled',
    }))
}

/** Builds the gate of a gateway's configuration. Missing references are recorded as problems. */
export function buildCatalogGate(
  gate: Gate | undefined,
  members: readonly { readonly identity: CatalogIdentity }[],
  { resolver, mounts, context }: Omit<MountPlace, 'at'> & { readonly context: ReconcileContext },
): Pick<GatewayConfig, 'catalogGate'> {
  if (!isGated(gate)) return {}
  const place = { at: '/spec/config/catalogGate', resolver, mounts }
  const { registries: files = [], ...settings } = mountSettings(catalogGate, gate, place)
  const registries = (gate.registries ?? []).map(({ name, registryRef, serviceAccountAudience, url }, index) => {
    const file = files[index] ?? { name, registry: '' }
    const server = {
      kind: 'MCPRegistry',
      metadata: { name: registryRef?.name ?? '', namespace: registryRef?.namespace ?? resolver.namespace },
    }
    return {
      ...file,
      url: registryRef === undefined ? (url ?? '') : buildAddress(server, registryListeners.listen, context),
      // Processes on somebody's own machine have no service account.
      ...(serviceAccountAudience === undefined || context.isOwnMachine
        ? {}
        : { tokenFile: mounts.audienceToken(name, serviceAccountAudience) }),
    }
  })
  return { catalogGate: sortedKeys({ ...settings, registries, members: members.map(({ identity }) => identity) }) }
}

/** Returns a member of the group as registries may know it. */
export function readCatalogIdentity(
  object: MCPServer | MCPRemoteProxy | MCPServerEntry,
  { group }: ReconcileContext,
): CatalogIdentity {
  const { metadata, spec } = object
  const annotation = (name: string) => metadata.annotations?.[`${group}/${name}`] || undefined
  const server = annotation('registry-server')
  const version = annotation('registry-server-version')
  const image = 'image' in spec ? findImage(spec) || spec.image : undefined
  return {
    backend: metadata.name,
    name: metadata.name,
    ...(metadata.uid ? { uid: metadata.uid } : {}),
    ...(server === undefined ? {} : { server }),
    ...(server === undefined || version === undefined ? {} : { version }),
    ...('remoteUrl' in spec ? { url: spec.remoteUrl } : {}),
    ...(image === undefined ? {} : { image }),
  }
}

/** Sets `CatalogGate`: what registries say of the members, as the gateway's pods report it. */
export function reportCatalogGate(
  gate: Gate | undefined,
  seen: WorkloadObservation | undefined,
  conditions: Conditions,
): void {
  if (!isGated(gate) || seen?.gate === undefined) return
  const { reason, message } = seen.gate
  const isWell = reason === 'AllApproved' || reason === 'Reported'
  conditions.set('CatalogGate', isWell ? 'True' : 'False', reason, message)
}
