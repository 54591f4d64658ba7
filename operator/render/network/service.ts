import type { service, serviceType } from '../../../crds/settings/pod/service.ts'
import type { Static } from '../../../crds/settings/schema.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { buildLabels, buildSelector, child, childName, serviceName, type Workload } from '../object/object.ts'
import { networkProblem } from './network.ts'

export type ServiceType = Static<typeof serviceType>
export type ServiceSettings = Static<typeof service>

export interface ServiceOptions {
  readonly port: number
  readonly portName: 'mcp' | 'http'
  /**
   * A number, since a name could match another container's port: the API server looks in `containers` before native
   * sidecars.
   */
  readonly targetPort: number
  readonly type?: ServiceType
  readonly settings?: ServiceSettings | undefined
  /** `ClientIP` keeps a client on one pod: sessions in memory live there. */
  readonly sessionAffinity?: 'ClientIP' | 'None'
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

/** Returns, by JSON pointer, what the API server would refuse of source ranges that the schema accepts. */
export const rangeProblems = ({ loadBalancerSourceRanges = [] }: ServiceSettings = {}) =>
  loadBalancerSourceRanges.flatMap((range, index) => {
    const message = networkProblem(range)
    return message === undefined ? [] : [{ pointer: `/spec/service/loadBalancerSourceRanges/${index}`, message }]
  })

export function renderService(workload: Workload, group: string, options: ServiceOptions): KubernetesObject {
  const { port, portName, targetPort, settings = {} } = options
  const { externalTrafficPolicy, loadBalancerSourceRanges, loadBalancerClass, ipFamilyPolicy } = settings
  return child(
    workload,
    group,
    {
      apiVersion: 'v1',
      kind: 'Service',
      name: serviceName(workload.kind, workload.metadata.name),
      labels: { ...options.labels, ...buildLabels(workload) },
      annotations: options.annotations ?? {},
    },
    {
      spec: {
        type: options.type ?? 'ClusterIP',
        selector: buildSelector(workload),
        sessionAffinity: options.sessionAffinity ?? 'None',
        ...(externalTrafficPolicy === undefined ? {} : { externalTrafficPolicy }),
        ...(loadBalancerSourceRanges === undefined ? {} : { loadBalancerSourceRanges }),
        ...(loadBalancerClass === undefined ? {} : { loadBalancerClass }),
        ...(ipFamilyPolicy === undefined ? {} : { ipFamilyPolicy }),
        ports: [{ name: portName, port, protocol: 'TCP', targetPort, appProtocol: 'http' }],
      },
    },
  )
}

/** The Gateways that carry a workload's traffic, and the host names. */
export interface HttpRoute {
  readonly parentRefs: readonly ParentRef[]
  readonly hostnames?: readonly string[]
}

interface ParentRef {
  readonly name: string
  readonly namespace?: string
  readonly sectionName?: string
}

const GATEWAY_API = 'gateway.networking.k8s.io'

/**
 * Renders the HTTPRoute (Gateway API v1) to a workload's Service. The API server's defaults are written out, so that
 * the stored object equals the rendered one.
 */
export function renderHttpRoute(
  workload: Workload,
  group: string,
  { parentRefs, hostnames }: HttpRoute,
  port: number,
): KubernetesObject {
  const { kind, metadata } = workload
  const backend = { group: '', kind: 'Service', name: serviceName(kind, metadata.name), port, weight: 1 }
  return child(
    workload,
    group,
    { apiVersion: `${GATEWAY_API}/v1`, kind: 'HTTPRoute', name: childName(kind, metadata.name) },
    {
      spec: {
        parentRefs: parentRefs.map(({ name, namespace, sectionName }) => ({
          group: GATEWAY_API,
          kind: 'Gateway',
          name,
          ...(namespace === undefined ? {} : { namespace }),
          ...(sectionName === undefined ? {} : { sectionName }),
        })),
        ...(hostnames?.length ? { hostnames } : {}),
        rules: [{ backendRefs: [backend], matches: [{ path: { type: 'PathPrefix', value: '/' } }] }],
      },
    },
  )
}

/** Ports on which a data plane listens in its pod. */
export interface Listeners {
  readonly listen: number
  readonly admin: number
}

/** The ports in a pod of its own. */
export const gatewayListeners: Listeners = { listen: 4483, admin: 8081 }
export const registryListeners: Listeners = { listen: 8080, admin: 8081 }
/** The ports beside a user's container, chosen to avoid the usual ports. */
export const sidecarListeners: Listeners = { listen: 14_483, admin: 14_081 }
