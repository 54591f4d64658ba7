import type { HttpRoute } from '../network/http-route.ts'
import type { NetworkPeers } from '../network/network-policy.ts'
import type { ServiceSettings, ServiceType } from '../network/service.ts'
import type { Disruption } from './disruption-budget.ts'
import type { PodOptions, WorkloadOptions } from './workload.ts'

export interface PodSettings {
  readonly podTemplateSpec?: Readonly<Record<string, unknown>>
  readonly imagePullSecrets?: readonly { readonly name: string }[]
  readonly serviceAccount?: string
  readonly replicas?: number
  readonly serviceType: ServiceType
  readonly service?: ServiceSettings
  readonly sessionAffinity: 'ClientIP' | 'None'
  readonly networkPolicy?: { readonly enabled: boolean; readonly ingressFrom?: NetworkPeers }
  readonly httpRoute?: HttpRoute
  readonly disruption?: Disruption
  readonly resourceOverrides?: ResourceOverrides
}

interface Metadata {
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

interface ResourceOverrides {
  readonly proxyDeployment?: Metadata & {
    readonly env?: readonly { readonly name: string; readonly value: string }[]
    readonly imagePullSecrets?: readonly { readonly name: string }[]
    readonly podTemplateMetadataOverrides?: Metadata
  }
  readonly proxyService?: Metadata
}

/** Joins lists in the given order, each name once. A later item of the same name wins. */
function byName<T extends { readonly name: string }>(...lists: readonly (readonly T[] | undefined)[]): T[] {
  const found = new Map<string, T>()
  for (const list of lists) for (const item of list ?? []) found.set(item.name, item)
  return [...found.values()]
}

interface Variable {
  readonly name: string
  readonly value: string
}

/** Returns the environment of our container. The user's values take precedence over ours. */
export const ownEnvironment = (settings: PodSettings, own: readonly Variable[] = []): readonly Variable[] =>
  byName(own, settings.resourceOverrides?.proxyDeployment?.env).map(({ name, value }) => ({ name, value }))

/** Builds the parts of a workload's pod and Deployment that its settings decide, whatever runs in it. */
export function fromSettings(settings: PodSettings): {
  readonly pod: Pick<PodOptions, 'imagePullSecrets' | 'serviceAccountName' | 'labels' | 'annotations' | 'patch'>
  readonly workload: Pick<WorkloadOptions, 'labels' | 'annotations'>
} {
  const deployment = settings.resourceOverrides?.proxyDeployment
  return {
    pod: {
      imagePullSecrets: byName(settings.imagePullSecrets, deployment?.imagePullSecrets).map(({ name }) => ({ name })),
      serviceAccountName: settings.serviceAccount,
      labels: deployment?.podTemplateMetadataOverrides?.labels,
      annotations: deployment?.podTemplateMetadataOverrides?.annotations,
      patch: settings.podTemplateSpec,
    },
    workload: { labels: deployment?.labels, annotations: deployment?.annotations },
  }
}
