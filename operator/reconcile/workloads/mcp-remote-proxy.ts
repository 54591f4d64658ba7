import { type MCPRemoteProxy, mcpGroup, mcpRemoteProxy } from '../../../crds/index.ts'
import type { ClusterView } from '../../model/view.ts'
import { warnOfAuthz } from '../configs/mcp-authz-config.ts'
import { reportDefinitions } from '../configs/mcp-pin.ts'
import { checkSupported, validateGateway } from '../outcome/findings.ts'
import type { ExplainedPlan, ReconcileContext } from '../outcome/plan.ts'
import { type Resolver, startResolver } from '../references/references.ts'
import { buildProxyCredential, buildRemoteBackend, checkRemoteUrl, withCredential } from '../rendering/backend.ts'
import {
  type Assembly,
  assembleProxy,
  PROXY_ORIGINS,
  PROXY_PLACES,
  readProxyPins,
  warnOfLogins,
} from '../rendering/proxy.ts'
import { checkName, checkPullSecrets, noteFindings, renderGatewayPods } from '../rendering/rendering.ts'
import {
  findGatewayPeers,
  readLimited,
  reportProofs,
  warnOfOpenToAll,
  warnOfProxyHeaders,
  warnOfRateLimits,
  warnOfSessions,
} from '../rendering/shared-settings.ts'
import { planWorkload } from '../rendering/workload.ts'

export function assembleMcpRemoteProxy(
  object: MCPRemoteProxy,
  resolver: Resolver,
  context: ReconcileContext,
): Assembly {
  const { spec } = object
  const { problems } = resolver
  checkSupported(mcpRemoteProxy, object, problems)
  checkName(object, 'rolling', problems)
  checkRemoteUrl(spec, context, problems)
  if (spec.groupRef) resolver.object(mcpGroup, spec.groupRef.name)
  checkPullSecrets(spec, resolver)
  const assembly = assembleProxy(
    object,
    (mounts) => {
      const backend = buildRemoteBackend(spec, resolver, mounts, context)
      return withCredential(backend, buildProxyCredential(spec, resolver, mounts))
    },
    resolver,
    context,
  )
  if (problems.none) noteFindings(validateGateway(assembly.config), problems, PROXY_PLACES, PROXY_ORIGINS)
  return assembly
}

/** Plans a proxy before an MCP server that runs elsewhere. */
export function reconcileMcpRemoteProxy(
  object: MCPRemoteProxy,
  view: ClusterView,
  context: ReconcileContext,
): ExplainedPlan {
  const resolver = startResolver(view, object.metadata.namespace)
  const { problems } = resolver
  const assembly = assembleMcpRemoteProxy(object, resolver, context)
  const gateways = findGatewayPeers(object, view)
  return planWorkload({
    object,
    view,
    context,
    problems,
    render: () => {
      const service = { port: object.spec.proxyPort, portName: 'mcp' as const }
      return renderGatewayPods(object, assembly, { service, gateways, problems }, context)
    },
    replicas: object.spec.replicas,
    extra: (conditions, seen) => {
      reportDefinitions([readProxyPins(object, assembly, seen)], { isOfGateway: false, problems }, conditions)
      warnOfLogins(object, assembly.config, resolver, conditions)
      warnOfSessions(object.spec, conditions)
      warnOfRateLimits(readLimited(object, object.spec.replicas, view), conditions)
      warnOfProxyHeaders(object.spec, conditions)
      warnOfOpenToAll(assembly.config, { settings: object.spec, gateways }, context, conditions)
      reportProofs(assembly.config, '/spec/oidcConfigRef/dpop', conditions)
      warnOfAuthz(object.spec, object.spec.oidcConfigRef === undefined, conditions)
    },
  })
}
