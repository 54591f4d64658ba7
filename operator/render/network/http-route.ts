import type { KubernetesObject } from '../../model/view.ts'
import { child, childName, serviceName, type Workload } from '../object/object.ts'

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
