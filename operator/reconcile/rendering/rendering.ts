import type { KindDeclaration, ObjectOf } from '../../../crds/define.ts'
import { type MCPGroup, type MCPRemoteProxy, mcpGroup, type VirtualMCPServer } from '../../../crds/index.ts'
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
  type Mounts,
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
  type PodSettings,
  readSettings,
  renderDisruptionBudget,
  renderWorkload,
  type WorkloadOptions,
} from '../../render/pod/workload.ts'
import type { PodRights } from '../../render/rights.ts'
import { checkSupported, noteInvalid, type Places, translatePointer } from '../outcome/findings.ts'
import type { Problems, ReconcileContext } from '../outcome/plan.ts'
import type { Resolver } from '../references/references.ts'
import type { Assembly } from './proxy.ts'
import type { Addresses } from './shared-settings.ts'
import type { Rendered } from './workload.ts'

interface PodsOptions {
  readonly role: 'gateway' | 'registry'
  readonly listeners: Listeners
  /** The resources of the data plane's container. */
  readonly resources: Resources
  /** Variables, mounts and volumes that the data plane's container has besides those of its configuration. */
  readonly env?: Parameters<typeof mergeEnvironment>[1]
  readonly volumeMounts?: readonly object[]
  readonly volumes?: readonly object[]
  /** The container beside which the data plane is a sidecar; absent: it is alone in its pods. */
  readonly server?: object
  /** Annotations of the pods. */
  readonly annotations?: Readonly<Record<string, string>>
  readonly service: Pick<ServiceOptions, 'port' | 'portName' | 'annotations'>
  readonly shape: WorkloadOptions['shape']
  readonly replicas: number | undefined
  /** The outbound traffic that the pods may send; absent: anything. */
  readonly outbound?: Outbound | undefined
  /** Gateways whose pods may reach the public port, in addition to the peers in the settings; absent: everybody. */
  readonly gateways?: NetworkPeers | undefined
  /** The account that the pods run as, and the rights that it is granted. */
  readonly rights?: PodRights | undefined
  readonly problems: Problems
}

interface PodObject extends Workload {
  readonly spec: PodSettings & { readonly groupRef?: { readonly name: string } }
}

/** Records what can be wrong with any workload: refused fields, its name, its group, pull secrets. Returns the group. */
export function checkWorkload<K extends KindDeclaration>(
  kind: K,
  object: ObjectOf<K> & PodObject,
  shape: WorkloadOptions['shape'],
  resolver: Resolver,
): MCPGroup | undefined {
  const { spec, metadata } = object
  checkSupported(kind, object, resolver.problems)
  const problem = findNameProblem(object.kind, metadata.name, shape === 'stateful')
  if (problem !== undefined) resolver.problems.add('Valid', 'NameInvalid', { message: problem })
  const group = spec.groupRef && resolver.object(mcpGroup, spec.groupRef.name)
  for (const { name } of readSettings(spec).pod.imagePullSecrets ?? []) resolver.secret(name)
  return group
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
function noteTaken(
  { kind, spec: { podTemplateSpec: patch } }: PodObject,
  own: OwnContainer,
  volumes: readonly object[],
  problems: Problems,
): void {
  if (patch === undefined) return
  const add = (reason: string) => (taken: TakenPart) =>
    problems.add('PodTemplateValid', reason, { ...taken, pointer: `/spec/podTemplateSpec${taken.pointer}` })
  findTakenPorts(kind, own, patch).forEach(add('PortNameTaken'))
  const names = (volumes as readonly { readonly name: string }[]).map((volume) => volume.name)
  const ours = new Set(names.filter((volume) => volume.startsWith('portico-') && volume !== STATE_VOLUME))
  findTakenVolumes(patch, ours).forEach(add('InvalidPodTemplateSpec'))
  findTakenMounts(own, patch).forEach(add('InvalidPodTemplateSpec'))
}

/** The configuration of a data plane, the files that it names, and where it is served. */
interface Configured extends Pick<Addresses, 'url' | 'externalUrl'> {
  readonly config: object
  readonly mounts: Mounts
}

/** Builds what runs in the pods: our container, alone or beside another one, and the volumes. */
function buildPod(
  { kind, spec }: PodObject,
  { mounts }: Configured,
  { role, listeners, resources, server, ...options }: PodsOptions,
  { image }: ReconcileContext,
) {
  const own = buildDataPlaneContainer({
    container: dataPlaneContainerName(kind),
    role,
    image,
    listeners,
    resources,
    env: mergeEnvironment(spec, options.env),
    volumeMounts: [...mounts.volumeMounts(), ...(options.volumeMounts ?? [])],
    sidecar: server !== undefined,
  })
  const containers = server === undefined ? { containers: [own] } : { containers: [server], initContainers: [own] }
  return { own, pod: { ...containers, volumes: [...mounts.volumes(), ...(options.volumes ?? [])] } }
}

/**
 * Renders the children in the order of apply: what the pods need, the pods, their rights, and kinds that a cluster may
 * lack.
 */
export function renderPods(
  object: PodObject,
  configured: Configured,
  options: PodsOptions,
  context: ReconcileContext,
): Rendered {
  const { group, adminPeers, podTemplate = 'baseline', podUsers = 'fixed' } = context
  const { spec } = object
  const { role, listeners, shape, replicas, outbound, gateways, problems } = options
  const { serviceAccount = spec.serviceAccount, account = [], grants = [] } = options.rights ?? {}
  const config = renderConfig(object, group, role, configured.config)
  const built = buildPod(object, configured, options, context)
  const { pod, workload: metadata } = readSettings({
    ...spec,
    ...(serviceAccount === undefined ? {} : { serviceAccount }),
  })
  const overrides = spec.resourceOverrides?.proxyService
  const service = renderService(object, group, {
    ...options.service,
    targetPort: listeners.listen,
    annotations: { ...options.service.annotations, ...overrides?.annotations },
    labels: overrides?.labels ?? {},
    settings: spec,
  })
  const broken: string[] = []
  const pods = renderWorkload(
    object,
    group,
    {
      ...metadata,
      pod: { ...pod, ...built.pod, annotations: { ...pod.annotations, ...options.annotations } },
      replicas,
      shape,
      users: podUsers,
    },
    broken,
  )
  for (const text of broken)
    problems.add('PodTemplateValid', 'InvalidPodTemplateSpec', { message: `podTemplateSpec ${text}` })
  if (broken.length === 0) noteTaken(object, built.own as unknown as OwnContainer, built.pod.volumes, problems)
  if (podTemplate === 'baseline' && broken.length === 0) noteViolations(pods, problems)
  const { enabled = true, ingressFrom } = spec.networkPolicy ?? {}
  noteInvalid([...checkPeers(ingressFrom), ...rangeProblems(spec.service)], problems)
  const callers = gateways && [...gateways, ...(ingressFrom ?? [])]
  const traffic = { restrictsIngress: enabled, admin: adminPeers, public: callers ?? ingressFrom, outbound }
  const policy = renderNetworkPolicy(object, group, listeners, traffic)
  const budget = renderDisruptionBudget(object, group, spec.disruption, replicas)
  const route = spec.httpRoute ? [renderHttpRoute(object, group, spec.httpRoute, options.service.port)] : []
  const children = [
    ...account,
    config.configMap,
    service,
    ...(policy ? [policy] : []),
    ...(budget ? [budget] : []),
    pods,
    ...grants,
    ...route,
  ]
  return { children, config, url: configured.url, externalUrl: configured.externalUrl }
}

/** Room for the vectors of tool search: twice the size of their file. */
const VECTORS_VOLUME = { name: STATE_VOLUME, emptyDir: { sizeLimit: '256Mi' } }

/** Renders the children of a gateway in pods of its own: a VirtualMCPServer, or a proxy before a remote server. */
export function renderGatewayPods(
  object: VirtualMCPServer | MCPRemoteProxy,
  assembly: Assembly,
  options: Pick<PodsOptions, 'service' | 'gateways' | 'problems'>,
  context: ReconcileContext,
): Rendered {
  const { resources, replicas } = object.spec
  const keepsVectors = assembly.config.optimizer?.embeddingService !== undefined
  const own = {
    role: 'gateway',
    listeners: gatewayListeners,
    resources: readResources(resources, resourceDefaults.gateway, options.problems),
    ...(keepsVectors && { env: stateEnvironment, volumeMounts: [stateMount], volumes: [VECTORS_VOLUME] }),
    shape: 'rolling',
    replicas,
  } as const
  return renderPods(object, assembly, { ...own, ...options }, context)
}
