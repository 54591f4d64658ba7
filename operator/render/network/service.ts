import type { service, serviceType } from '../../../crds/settings/pod/service.ts'
import type { Static } from '../../../crds/settings/schema.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { buildLabels, buildSelector, child, serviceName, type Workload } from '../object/object.ts'
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
