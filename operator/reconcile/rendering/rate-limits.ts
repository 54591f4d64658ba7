import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import type { ClusterView } from '../../model/view.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import type { Conditions } from '../outcome/conditions.ts'

type RateLimiting = GatewayConfig['rateLimiting']

/** Builds the limits of tool calls as the data plane reads them: tools by name. */
export function buildRateLimits(rateLimiting: RateLimiting): Pick<GatewayConfig, 'rateLimiting'> {
  if (rateLimiting === undefined) return {}
  const { tools } = rateLimiting
  if (tools === undefined) return { rateLimiting: sortedKeys(rateLimiting) }
  const sorted = [...tools].sort((a, b) => (a.name < b.name ? -1 : 1))
  return { rateLimiting: sortedKeys({ ...rateLimiting, tools: sorted }) }
}

interface Limited {
  readonly rateLimiting?: RateLimiting
  readonly sessionStorage?: { readonly provider: 'memory' | 'redis' } | undefined
  /** The number of pods in the spec, or of running pods if an autoscaler decides it. */
  readonly replicas: number
  readonly isAnonymous: boolean
}

interface Proxy {
  readonly kind: string
  readonly metadata: { readonly namespace: string; readonly name: string }
  readonly spec: Pick<Limited, 'rateLimiting' | 'sessionStorage'> & { readonly oidcConfigRef?: object }
}

/** Returns a proxy's input of `warnOfRateLimits`. `replicas` is undefined if an autoscaler sets the number of pods. */
export function readLimited(
  { kind, metadata, spec }: Proxy,
  replicas: number | undefined,
  view: Pick<ClusterView, 'observe'>,
): Limited {
  return {
    rateLimiting: spec.rateLimiting,
    sessionStorage: spec.sessionStorage,
    replicas: replicas ?? view.observe(kind, metadata.namespace, metadata.name)?.replicas ?? 1,
    isAnonymous: spec.oidcConfigRef === undefined,
  }
}

/** Sets `RateLimitWarning` for limits that are weaker than, or differ from, what they seem to be. */
export function warnOfRateLimits(
  { rateLimiting, sessionStorage, replicas, isAnonymous }: Limited,
  conditions: Conditions,
): void {
  if (rateLimiting === undefined) return
  const { perUser, tools = [] } = rateLimiting
  const countsUsers = perUser !== undefined || tools.some((tool) => tool.perUser !== undefined)
  if (replicas > 1 && sessionStorage?.provider !== 'redis')
    conditions.set(
      'RateLimitWarning',
      'True',
      'CountedByEachPod',
      `each of ${replicas} pods counts calls separately, so ${replicas} times as many are allowed: set sessionStorage.provider to redis`,
    )
  else if (countsUsers && isAnonymous)
    conditions.set(
      'RateLimitWarning',
      'True',
      'NoUsers',
      'callers are anonymous, so all of them share the limits per user: set oidcConfigRef',
    )
}
