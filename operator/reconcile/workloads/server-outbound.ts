import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import type { Outbound } from '../../render/network/network-policy.ts'
import type { Conditions } from '../outcome/conditions.ts'
import type { ReconcileContext } from '../outcome/plan.ts'
import type { Problems } from '../outcome/problems.ts'

/** What the proxy in the server's pod must reach itself, besides the server. */
function ownNeeds({ incomingAuth, authServer, sessionStorage, telemetry, backends }: GatewayConfig): readonly string[] {
  const { stdio, credential } = backends[0] ?? {}
  return [
    ...(stdio?.attach ? ['the API server, by which it attaches to a stdio server'] : []),
    ...(incomingAuth.oidc ? ['the issuer of tokens'] : []),
    ...(authServer ? ['login providers'] : []),
    ...(sessionStorage?.redis ? ['Redis'] : []),
    ...(telemetry?.openTelemetry?.enabled ? ['the endpoint of telemetry'] : []),
    ...(credential && credential.type !== 'forwarded' ? ['the token endpoint of the server’s credential'] : []),
  ]
}

/** A NetworkPolicy is about the whole pod: what shuts the server in shuts in the proxy beside it. */
export function checkOutbound(outbound: Outbound | undefined, config: GatewayConfig, problems: Problems): void {
  const needs = outbound === 'nothing' ? ownNeeds(config) : []
  if (needs.length === 0) return
  const message = `lets nothing out of the pod, and the proxy in it must reach ${needs.join(', ')}; list their addresses in a profile of type configmap`
  problems.add('Valid', 'ProxyShutIn', { pointer: '/spec/permissionProfile', joint: ' ', message })
}

/** On somebody's own machine there are no NetworkPolicies. */
export function warnOfOutbound(
  outbound: Outbound | undefined,
  { isOwnMachine }: ReconcileContext,
  conditions: Conditions,
): void {
  if (!isOwnMachine || outbound === undefined || outbound === 'anything') return
  const message = 'nothing keeps a server on this machine from the network; in a cluster a NetworkPolicy does'
  conditions.set('PermissionProfileWarning', 'True', 'NotEnforced', message)
}
