import { type MCPGroup, mcpGroup } from '../../../crds/index.ts'
import type { ClusterView } from '../../model/view.ts'
import { reportBlockedDeletion } from '../configs/config.ts'
import { type ExplainedPlan, type ReconcileContext, readGeneration, startConditions } from '../outcome/plan.ts'

/** Lists the members of a group. A deleted group stays while any object names it: its gateways need it. */
export function reconcileMcpGroup(object: MCPGroup, view: ClusterView, context: ReconcileContext): ExplainedPlan {
  const { namespace, name } = object.metadata
  const conditions = startConditions(object, context.now)
  const referrers = view.referrers(mcpGroup, namespace, name)
  const listNames = (kind: string) => referrers.filter((referrer) => referrer.kind === kind).map((found) => found.name)
  const servers = listNames('MCPServer')
  const remoteProxies = listNames('MCPRemoteProxy')
  const entries = listNames('MCPServerEntry')
  conditions.set('Ready', 'True', 'Ready', '')
  const events = reportBlockedDeletion(object, referrers, conditions)
  const members = servers.length + remoteProxies.length + entries.length
  if (members === 0) conditions.set('MembersListed', 'True', 'NoMembers', 'no object names this group yet')
  else conditions.set('MembersListed', 'True', 'Listed', `${members} ${members === 1 ? 'member' : 'members'}`)
  return {
    children: [],
    status: {
      conditions: conditions.list(),
      entries,
      entryCount: entries.length,
      observedGeneration: readGeneration(object),
      phase: 'Ready',
      remoteProxies,
      remoteProxyCount: remoteProxies.length,
      serverCount: servers.length,
      servers,
    },
    events,
    finalizer: referrers.length > 0,
    problems: [],
  }
}
