import { type MCPRemoteProxy, mcpRemoteProxy } from '../../../crds/index.ts'
import type { ClusterView } from '../../model/view.ts'
import { validateGateway } from '../outcome/findings.ts'
import type { ExplainedPlan, ReconcileContext } from '../outcome/plan.ts'
import { type Resolver, startResolver } from '../references/references.ts'
import { buildProxyCredential, buildRemoteBackend, checkRemoteUrl, withCredential } from '../rendering/backend.ts'
import { type Assembly, assembleProxy, PROXY_ORIGINS, PROXY_PLACES, reportProxy } from '../rendering/proxy.ts'
import { checkWorkload, noteFindings, renderGatewayPods } from '../rendering/rendering.ts'
import { findGatewayPeers } from '../rendering/shared-settings.ts'
import { planWorkload } from '../rendering/workload.ts'

export function assembleMcpRemoteProxy(
  object: MCPRemoteProxy,
  resolver: Resolver,
  context: ReconcileContext,
): Assembly {
  const { spec } = object
  const { problems } = resolver
  checkWorkload(mcpRemoteProxy, object, 'rolling', resolver)
  checkRemoteUrl(spec, context, problems)
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
  const assembly = assembleMcpRemoteProxy(object, resolver, context)
  const gateways = findGatewayPeers(object, view)
  const { proxyPort: port, replicas } = object.spec
  const options = { service: { port, portName: 'mcp' as const }, gateways, problems: resolver.problems }
  return planWorkload({
    object,
    resolver,
    context,
    render: () => renderGatewayPods(object, assembly, options, context),
    replicas,
    extra: (conditions, seen) =>
      reportProxy(object, { config: assembly.config, seen, gateways, context }, resolver, conditions),
  })
}
