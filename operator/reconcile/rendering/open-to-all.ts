import { mcpGroup, virtualMcpServer } from '../../../crds/index.ts'
import type { BackendConfig, GatewayConfig } from '../../../dataplane/config/gateway.ts'
import type { ClusterView } from '../../model/view.ts'
import type { NetworkPeers } from '../../render/network/network-policy.ts'
import { buildSelector } from '../../render/object/object.ts'
import type { PodSettings } from '../../render/pod/workload.ts'
import type { Conditions, ReconcileContext } from '../outcome/plan.ts'

interface MemberObject {
  readonly metadata: { readonly namespace: string }
  readonly spec: { readonly groupRef?: { readonly name: string }; readonly oidcConfigRef?: object }
}

/** Returns the pods of the gateways through which a group member is reached. Undefined if others reach it too. */
export function gatewayPeers({ metadata, spec }: MemberObject, view: ClusterView): NetworkPeers | undefined {
  const { groupRef, oidcConfigRef } = spec
  if (groupRef === undefined || oidcConfigRef !== undefined) return undefined
  const { namespace } = metadata
  const gateways = view
    .referrers(mcpGroup, namespace, groupRef.name)
    .flatMap(({ kind, name }) => (kind === 'VirtualMCPServer' && view.get(virtualMcpServer, namespace, name)) || [])
  if (gateways.every((gateway) => gateway.spec.incomingAuth.type === 'anonymous')) return undefined
  return gateways.map((gateway) => ({ podSelector: { matchLabels: buildSelector(gateway) } }))
}

interface ServedTo {
  readonly settings: Pick<PodSettings, 'networkPolicy'>
  /** The result of `gatewayPeers`. */
  readonly gateways?: NetworkPeers | undefined
  readonly secrets?: readonly string[]
}

const sendsCredential = ({ headerFiles = [], credential }: BackendConfig) =>
  headerFiles.length > 0 || (credential !== undefined && credential.type !== 'forwarded')

/** Sets `OpenToAll`: whoever can open a connection can use a credential that is not theirs. */
export function warnOfOpenToAll(
  { incomingAuth, backends }: GatewayConfig,
  { settings: { networkPolicy }, gateways, secrets = [] }: ServedTo,
  context: ReconcileContext,
  conditions: Conditions,
): void {
  // On a user's own machine the listeners are on loopback.
  if (incomingAuth.type !== 'anonymous' || context.isOwnMachine) return
  const { enabled = true, ingressFrom } = networkPolicy ?? {}
  if (enabled && (ingressFrom ?? gateways) !== undefined) return
  const sent = backends.filter(sendsCredential).map(({ name }) => JSON.stringify(name))
  if (sent.length === 0 && secrets.length === 0) return
  const used = [
    ...(sent.length > 0 ? [`what is sent to ${sent.join(', ')}`] : []),
    ...(secrets.length > 0 ? [`Secrets ${secrets.map((name) => JSON.stringify(name)).join(', ')}`] : []),
  ]
  const remedy = 'let callers log in (oidcConfigRef), or name who may reach it in networkPolicy.ingressFrom'
  const message = `every pod of the cluster can call this without a token and use its credentials (${used.join('; ')}): ${remedy}`
  conditions.set('ExposureWarning', 'True', 'OpenToAll', message)
}
