import type { Finding } from '../../dataplane/config/load.ts'
import type { KubernetesObject } from '../model/view.ts'
import type { Listeners } from '../render/containers.ts'
import { nameProblem, type Workload } from '../render/names.ts'
import { renderNetworkPolicy } from '../render/network-policy.ts'
import { fromSettings, type PodSettings } from '../render/pod-settings.ts'
import { type Resources, renderResources } from '../render/resources.ts'
import { renderService, type ServiceOptions } from '../render/service.ts'
import { type PodOptions, renderWorkload, type WorkloadOptions } from '../render/workload.ts'
import type { ReconcileContext } from './plan.ts'
import type { Problems } from './problems.ts'

export interface ChildrenOptions {
  readonly settings: PodSettings
  readonly configMap: KubernetesObject
  readonly listeners: Listeners
  readonly service: Pick<ServiceOptions, 'port' | 'targetPort' | 'annotations'>
  readonly pod: Pick<PodOptions, 'containers' | 'initContainers' | 'volumes' | 'annotations'>
  readonly shape: WorkloadOptions['shape']
  readonly replicas: number | undefined
}

/** Notes a workload's name that gives no valid names of children. */
export function checkName(workload: Workload, shape: WorkloadOptions['shape'], problems: Problems): void {
  const problem = nameProblem(workload.kind, workload.metadata.name, shape === 'stateful')
  if (problem !== undefined) problems.add('Valid', 'NameInvalid', problem)
}

/** Resources of a container; a quantity that is none is noted. */
export function containerResources(set: Resources | undefined, defaults: Resources, problems: Problems): Resources {
  const broken: string[] = []
  const resources = renderResources(set, defaults, broken)
  for (const text of broken) problems.add('Valid', 'ConfigInvalid', text)
  return resources
}

/** Notes what the data plane's own rules find in a configuration that is about to be rendered. */
export function noteFindings(findings: readonly Finding[], problems: Problems): void {
  for (const { pointer, message } of findings)
    problems.add('Valid', 'ConfigInvalid', `configuration ${pointer} ${message}`)
}

/** All children of a workload, in the order in which they are applied: the pods last. */
export function renderChildren(
  workload: Workload,
  options: ChildrenOptions,
  problems: Problems,
  { group }: ReconcileContext,
): readonly KubernetesObject[] {
  const { settings, listeners } = options
  const { pod, workload: metadata } = fromSettings(settings)
  const overrides = settings.resourceOverrides?.proxyService
  const service = renderService(workload, group, {
    ...options.service,
    annotations: { ...options.service.annotations, ...overrides?.annotations },
    labels: overrides?.labels ?? {},
    sessionAffinity: settings.sessionAffinity,
    type: settings.serviceType,
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
    },
    broken,
  )
  for (const text of broken) problems.add('PodTemplateValid', 'InvalidPodTemplateSpec', `podTemplateSpec ${text}`)
  const policy = settings.networkPolicy?.enabled === false ? [] : [renderNetworkPolicy(workload, group, listeners)]
  return [options.configMap, service, ...policy, pods]
}
