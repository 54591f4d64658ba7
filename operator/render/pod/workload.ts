import type { MCPRegistry } from '../../../crds/index.ts'
import type { podSettings } from '../../../crds/settings/pod/pod.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { hashValue } from '../object/canonical.ts'
import {
  buildChild,
  buildLabels,
  buildSelector,
  childName,
  serviceName,
  stringMap,
  type Workload,
} from '../object/object.ts'
import { GRACE_SECONDS, mapContainers, podSecurityContext, withoutUsers } from './containers.ts'
import { mergePodTemplate, type PodTemplate } from './pod-template.ts'

/** The settings that every kind with pods has. */
export type PodSettings = Pick<MCPRegistry['spec'], keyof typeof podSettings | 'resourceOverrides'>

export interface PodOptions {
  readonly containers: readonly object[]
  readonly initContainers?: readonly object[]
  readonly volumes: readonly object[]
  readonly serviceAccountName?: string | undefined
  readonly imagePullSecrets?: readonly { readonly name: string }[] | undefined
  readonly labels?: Readonly<Record<string, string>> | undefined
  readonly annotations?: Readonly<Record<string, string>> | undefined
  /** The user's `podTemplateSpec`, merged over ours. */
  readonly patch?: Readonly<Record<string, unknown>> | undefined
}

export interface WorkloadOptions {
  readonly pod: PodOptions
  /** Absent: left to whoever scales the workload (HPA, kubectl). */
  readonly replicas?: number | undefined
  readonly labels?: Readonly<Record<string, string>> | undefined
  readonly annotations?: Readonly<Record<string, string>> | undefined
  /** A StatefulSet gives its one pod a name that a Role can refer to. `recreate` never runs two pods at once. */
  readonly shape: 'rolling' | 'recreate' | 'stateful'
  /** `platform`: the cluster chooses users and groups, except those in the user's own pod template. */
  readonly users: 'fixed' | 'platform'
}

/** Spreads the pods of a workload over nodes if possible. */
const spread = (workload: Workload) => [
  {
    labelSelector: { matchLabels: buildSelector(workload) },
    maxSkew: 1,
    topologyKey: 'kubernetes.io/hostname',
    whenUnsatisfiable: 'ScheduleAnyway',
  },
]

/** Tells data planes the grace period if it differs from their default. */
function withGrace(template: PodTemplate): PodTemplate {
  const { terminationGracePeriodSeconds: seconds = GRACE_SECONDS } = template.spec
  if (seconds === GRACE_SECONDS) return template
  const addGrace = (container: { readonly args?: unknown }) =>
    Array.isArray(container.args) && container.args[0] === 'serve'
      ? { ...container, args: [...container.args, '--grace', String(seconds)] }
      : container
  return { ...template, spec: mapContainers(template.spec, addGrace) }
}

function buildPodTemplate(
  workload: Workload,
  group: string,
  { pod, users }: WorkloadOptions,
  problems: string[],
): PodTemplate {
  const rendered: PodTemplate = {
    metadata: {
      ...stringMap('labels', { ...pod.labels, ...buildLabels(workload) }),
      ...stringMap('annotations', pod.annotations ?? {}),
    },
    spec: {
      automountServiceAccountToken: false,
      ...(pod.imagePullSecrets?.length ? { imagePullSecrets: pod.imagePullSecrets } : {}),
      ...(pod.initContainers?.length ? { initContainers: pod.initContainers } : {}),
      containers: pod.containers,
      enableServiceLinks: false,
      securityContext: podSecurityContext,
      ...(pod.serviceAccountName === undefined ? {} : { serviceAccountName: pod.serviceAccountName }),
      terminationGracePeriodSeconds: GRACE_SECONDS,
      topologySpreadConstraints: spread(workload),
      volumes: pod.volumes,
    },
  }
  const base = users === 'platform' ? { ...rendered, spec: withoutUsers(rendered.spec) } : rendered
  const merged = withGrace(mergePodTemplate(base, pod.patch, buildSelector(workload), problems))
  // One hash of everything that needs a restart. Standalone and the roll-out report compare it. It excludes the
  // configuration.
  const annotations = { ...merged.metadata.annotations, [`${group}/template-hash`]: hashValue(merged) }
  return { ...merged, metadata: { ...merged.metadata, ...stringMap('annotations', annotations) } }
}

const strategies = {
  rolling: { strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } } },
  recreate: { strategy: { type: 'Recreate' } },
}

/**
 * Renders the Deployment or StatefulSet of a workload. Errors in the user's pod template are added to `problems`. The
 * returned object is then unusable.
 */
export function renderWorkload(
  workload: Workload,
  group: string,
  options: WorkloadOptions,
  problems: string[],
): KubernetesObject {
  const { shape } = options
  const name = childName(workload.kind, workload.metadata.name)
  const spec = {
    ...(options.replicas === undefined ? {} : { replicas: options.replicas }),
    selector: { matchLabels: buildSelector(workload) },
    ...(shape === 'stateful'
      ? {
          // With the default, OrderedReady, a pod that does not start would block its own repair
          // (kubernetes/kubernetes#67250).
          podManagementPolicy: 'Parallel',
          serviceName: serviceName(workload.kind, workload.metadata.name),
          updateStrategy: { type: 'RollingUpdate' },
        }
      : strategies[shape]),
    template: buildPodTemplate(workload, group, options, problems),
  }
  return buildChild(
    workload,
    group,
    {
      apiVersion: 'apps/v1',
      kind: shape === 'stateful' ? 'StatefulSet' : 'Deployment',
      name,
      ...(options.labels === undefined ? {} : { labels: options.labels }),
      ...(options.annotations === undefined ? {} : { annotations: options.annotations }),
    },
    { spec },
  )
}

/**
 * Renders the PodDisruptionBudget. Undefined if the settings have none and there is one pod, or an autoscaler. A pod
 * that isn't ready never blocks a drain.
 */
export function renderDisruptionBudget(
  workload: Workload,
  group: string,
  disruption: PodSettings['disruption'],
  replicas: number | undefined,
): KubernetesObject | undefined {
  if (disruption === undefined && (replicas ?? 1) <= 1) return undefined
  const { maxUnavailable = 1, minAvailable } = disruption ?? {}
  const budget = minAvailable === undefined ? { maxUnavailable } : { minAvailable }
  return buildChild(
    workload,
    group,
    { apiVersion: 'policy/v1', kind: 'PodDisruptionBudget', name: childName(workload.kind, workload.metadata.name) },
    {
      spec: {
        ...budget,
        selector: { matchLabels: buildSelector(workload) },
        unhealthyPodEvictionPolicy: 'AlwaysAllow',
      },
    },
  )
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
export const mergeEnvironment = (settings: PodSettings, own: readonly Variable[] = []): readonly Variable[] =>
  byName(own, settings.resourceOverrides?.proxyDeployment?.env).map(({ name, value }) => ({ name, value }))

/** Builds the parts of a workload's pod and Deployment that its settings decide, whatever runs in it. */
export function readSettings(settings: PodSettings): {
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
