import { gatewayListeners } from '../../render/network/service.ts'
import { renderConfig } from '../../render/object/config-map.ts'
import { dataPlaneContainerName, type Workload } from '../../render/object/object.ts'
import { dataPlaneContainer, type Resources, resourceDefaults } from '../../render/pod/containers.ts'
import { STATE_VOLUME, stateEnvironment, stateMount } from '../../render/pod/mounts.ts'
import { ownEnvironment, type PodSettings } from '../../render/pod/workload.ts'
import type { Problems, ReconcileContext } from '../outcome/plan.ts'
import type { Assembly } from './proxy.ts'
import { type ChildrenOptions, containerResources, renderChildren } from './rendering.ts'
import type { Rendered } from './workload.ts'

interface GatewayWorkload extends Workload {
  readonly spec: PodSettings & { readonly resources?: Resources; readonly replicas?: number }
}

interface GatewayPods {
  readonly service: ChildrenOptions['service']
  readonly gateways?: ChildrenOptions['gateways']
  readonly problems: Problems
}

/** Room for the vectors of tool search: twice the size of their file. */
const VECTORS_VOLUME = { name: STATE_VOLUME, emptyDir: { sizeLimit: '256Mi' } }

/** Renders the children of a gateway in pods of its own: a VirtualMCPServer, or a proxy before a remote server. */
export function renderGatewayPods(
  object: GatewayWorkload,
  assembly: Assembly,
  { service, gateways, problems }: GatewayPods,
  context: ReconcileContext,
): Rendered {
  const { spec } = object
  const { mounts } = assembly
  const config = renderConfig(object, context.group, 'gateway', assembly.config)
  const keepsVectors = assembly.config.optimizer?.embeddingService !== undefined
  const container = dataPlaneContainer({
    container: dataPlaneContainerName(object.kind),
    role: 'gateway',
    image: context.image,
    listeners: gatewayListeners,
    resources: containerResources(spec.resources, resourceDefaults.gateway, problems),
    env: ownEnvironment(spec, keepsVectors ? stateEnvironment : []),
    volumeMounts: [...mounts.volumeMounts(), ...(keepsVectors ? [stateMount] : [])],
    sidecar: false,
  })
  const children = renderChildren(
    object,
    {
      settings: spec,
      configMap: config.configMap,
      listeners: gatewayListeners,
      service,
      pod: { containers: [container], volumes: [...mounts.volumes(), ...(keepsVectors ? [VECTORS_VOLUME] : [])] },
      shape: 'rolling',
      replicas: spec.replicas,
      gateways,
    },
    problems,
    context,
  )
  return { children, config, url: assembly.url, externalUrl: assembly.externalUrl }
}
