import type { Finding } from '../../../dataplane/config/load.ts'
import type { KubernetesObject } from '../../model/view.ts'
import {
  checkPeers,
  gatewayListeners,
  type Listeners,
  type NetworkPeers,
  type Outbound,
  rangeProblems,
  renderHttpRoute,
  renderNetworkPolicy,
  renderService,
  type ServiceOptions,
} from '../../render/network/network.ts'
import { dataPlaneContainerName, findNameProblem, renderConfig, type Workload } from '../../render/object/object.ts'
import {
  buildDataPlaneContainer,
  type Resources,
  renderResources,
  resourceDefaults,
  STATE_VOLUME,
  stateEnvironment,
  stateMount,
} from '../../render/pod/containers.ts'
import { baselineViolations } from '../../render/pod/pod-security.ts'
import {
  findTakenMounts,
  findTakenPorts,
  findTakenVolumes,
  type OwnContainer,
  type PodTemplate,
  type TakenPart,
} from '../../render/pod/pod-template.ts'
import {
  mergeEnvironment,
  type PodOptions,
  type PodSettings,
  readSettings,
  renderDisruptionBudget,
  renderWorkload,
  type WorkloadOptions,
} from '../../render/pod/workload.ts'
import type { PodRights } from '../../render/rights.ts'
import { noteInvalid, type Places, translatePointer } from '../outcome/findings.ts'
import type { Problems, ReconcileContext } from '../outcome/plan.ts'
import type { Resolver } from '../references/references.ts'
import type { Assembly } from './proxy.ts'
import type { Rendered } from './workload.ts'

interface ChildrenOptions {
  readonly settings: PodSettings
  readonly configMap: KubernetesObject
  readonly listeners: Listeners
  readonly service: Pick<ServiceOptions, 'port' | 'portName' | 'annotations'>
  readonly pod: Pick<PodOptions, 'containers' | 'initContainers' | 'volumes' | 'annotations'>
  readonly shape: WorkloadOptions['shape']
  readonly replicas: number | undefined
  /** The outbound traffic that the pods may send; absent: anything. */
  readonly outbound?: Outbound | undefined
  /** Gateways whose pods may reach the public port, in addition to the peers in the settings; absent: everybody. */
  readonly gateways?: NetworkPeers | undefined
  /** The account that the pods run as, and the rights that it is granted. */
  readonly rights?: PodRights | undefined
}

/** Records a problem if a workload's name gives no valid names of children. */
export function checkName(workload: Workload, shape: WorkloadOptions['shape'], problems: Problems): void {
  const problem = findNameProblem(workload.kind, workload.metadata.name, shape === 'stateful')
  if (problem !== undefined) problems.add('Valid', 'NameInvalid', { message: problem })
}

export function checkPullSecrets(settings: PodSettings, resolver: Resolver): void {
  for (const { name } of readSettings(settings).pod.imagePullSecrets ?? []) resolver.secret(name)
}

/** Returns the resources of a container. An invalid quantity is recorded as a problem. */
export function readResources(set: Resources | undefined, defaults: Resources, problems: Problems): Resources {
  const broken: string[] = []
  const resources = renderResources(set, defaults, broken)
  for (const message of broken) problems.add('Valid', 'ConfigInvalid', { message })
  return resources
}

/** Records the data plane's own findings. `places` maps pointers into the configuration to pointers into the object. */
export function noteFindings(
  findings: readonly Finding[],
  problems: Problems,
  places: Places = {},
  origins: Places = {},
): void {
  for (const { pointer, message } of findings) {
    const place = translatePointer(pointer, places)
    if (place !== undefined) problems.refuse(place, message)
    else {
      const origin = Object.keys(origins).find((part) => pointer === part || pointer.startsWith(`${part}/`))
      const what = `what is rendered from it can’t be served: ${pointer} ${message}`
      problems.refuse((origin && origins[origin]) ?? '/spec', what, ': ')
    }
  }
}

/** Records violations of Pod Security: who may write a workload must not control the node by it. */
function noteViolations(pods: KubernetesObject, problems: Problems): void {
  const { template } = pods['spec'] as { readonly template: PodTemplate }
  const why = 'is forbidden by Pod Security “baseline”; the operator allows it with --pod-template=any'
  for (const { pointer, message } of baselineViolations(template))
    problems.add('PodTemplateValid', 'PodSecurityViolation', {
      pointer: `/spec/podTemplateSpec${pointer}`,
      message: `${message} ${why}`,
    })
}

/** Records ports, volumes and mounts of our container that a pod template would replace. */
function noteTaken(workload: Workload, { pod, settings }: ChildrenOptions, problems: Problems): void {
  const patch = settings.podTemplateSpec
  if (patch === undefined) return
  const name = dataPlaneContainerName(workload.kind)
  const own = [...pod.containers, ...(pod.initContainers ?? [])].find((one) => (one as OwnContainer).name === name)
  const add = (reason: string) => (taken: TakenPart) =>
    problems.add('PodTemplateValid', reason, { ...taken, pointer: `/spec/podTemplateSpec${taken.pointer}` })
  findTakenPorts(workload.kind, own as OwnContainer, patch).forEach(add('PortNameTaken'))
  const volumes = (pod.volumes as readonly { readonly name: string }[]).map((volume) => volume.name)
  const ours = new Set(volumes.filter((volume) => volume.startsWith('portico-') && volume !== STATE_VOLUME))
  findTakenVolumes(patch, ours).forEach(add('InvalidPodTemplateSpec'))
  findTakenMounts(own as OwnContainer, patch).forEach(add('InvalidPodTemplateSpec'))
}

/**
 * Returns the children in the order of apply: what the pods need, the pods, their rights, and kinds that a cluster may
 * lack.
 */
export function renderChildren(
  workload: Workload,
  options: ChildrenOptions,
  problems: Problems,
  { group, adminPeers, podTemplate = 'baseline', podUsers = 'fixed' }: ReconcileContext,
): readonly KubernetesObject[] {
  const { settings, listeners } = options
  const { serviceAccount = settings.serviceAccount, account = [], grants = [] } = options.rights ?? {}
  const { pod, workload: metadata } = readSettings({
    ...settings,
    ...(serviceAccount === undefined ? {} : { serviceAccount }),
  })
  const overrides = settings.resourceOverrides?.proxyService
  const service = renderService(workload, group, {
    ...options.service,
    targetPort: listeners.listen,
    annotations: { ...options.service.annotations, ...overrides?.annotations },
    labels: overrides?.labels ?? {},
    settings,
  })
  const broken: string[] = []
  const pods = renderWorkload(
    workload,
    group,
    {
      ...metadata,
      pod: { ...pod, ...options.pod, annotations: { ...pod.annotations, ...options.pod.annotations } },
      replicas: options.replicas,
      shape: options.shape,
      users: podUsers,
    },
    broken,
  )
  for (const text of broken)
    problems.add('PodTemplateValid', 'InvalidPodTemplateSpec', { message: `podTemplateSpec ${text}` })
  if (broken.length === 0) noteTaken(workload, options, problems)
  if (podTemplate === 'baseline' && broken.length === 0) noteViolations(pods, problems)
  const { enabled = true, ingressFrom } = settings.networkPolicy ?? {}
  noteInvalid([...checkPeers(ingressFrom), ...rangeProblems(settings.service)], problems)
  const { outbound, gateways } = options
  const callers = gateways && [...gateways, ...(ingressFrom ?? [])]
  const traffic = { restrictsIngress: enabled, admin: adminPeers, public: callers ?? ingressFrom, outbound }
  const policy = renderNetworkPolicy(workload, group, listeners, traffic)
  const budget = renderDisruptionBudget(workload, group, settings.disruption, options.replicas)
  const { httpRoute } = settings
  const route = httpRoute ? [renderHttpRoute(workload, group, httpRoute, options.service.port)] : []
  return [
    ...account,
    options.configMap,
    service,
    ...(policy ? [policy] : []),
    ...(budget ? [budget] : []),
    pods,
    ...grants,
    ...route,
  ]
}

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
  const container = buildDataPlaneContainer({
    container: dataPlaneContainerName(object.kind),
    role: 'gateway',
    image: context.image,
    listeners: gatewayListeners,
    resources: readResources(spec.resources, resourceDefaults.gateway, problems),
    env: mergeEnvironment(spec, keepsVectors ? stateEnvironment : []),
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
