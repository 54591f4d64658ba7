import type { KubernetesObject } from '../../model/view.ts'
import { labelsOf, selectorOf, serviceName, type Workload } from '../object/names.ts'
import { child } from '../object/object.ts'

export interface ServiceOptions {
  /** Public port. */
  readonly port: number
  readonly portName: 'mcp' | 'http'
  /**
   * Number of the port behind it. A name could be another container's: the API server looks in `containers` before it
   * looks at native sidecars, and before Kubernetes 1.32 not at these at all.
   */
  readonly targetPort: number
  readonly type?: 'ClusterIP' | 'NodePort' | 'LoadBalancer'
  /** `ClientIP` keeps a client on one pod: sessions in memory live there. */
  readonly sessionAffinity?: 'ClientIP' | 'None'
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

/** The Service under which a workload is reached. */
export function renderService(workload: Workload, group: string, options: ServiceOptions): KubernetesObject {
  const { port, portName, targetPort } = options
  return child(
    workload,
    group,
    {
      apiVersion: 'v1',
      kind: 'Service',
      name: serviceName(workload.kind, workload.metadata.name),
      labels: { ...options.labels, ...labelsOf(workload) },
      annotations: options.annotations ?? {},
    },
    {
      spec: {
        type: options.type ?? 'ClusterIP',
        selector: selectorOf(workload),
        sessionAffinity: options.sessionAffinity ?? 'None',
        ports: [{ name: portName, port, protocol: 'TCP', targetPort, appProtocol: 'http' }],
      },
    },
  )
}
