import type { KubernetesObject } from '../../model/view.ts'

/** The parts of a pod template that standalone acts on. */
interface PodSpec {
  readonly containers: readonly Container[]
  readonly initContainers?: readonly Container[]
  readonly volumes?: readonly Volume[]
}

export interface Container {
  readonly name: string
  readonly image?: string
  readonly args?: readonly string[]
  /** It speaks on its standard input and output. */
  readonly stdin?: boolean
  readonly env?: readonly EnvVar[]
  readonly envFrom?: readonly EnvSource[]
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string; readonly subPath?: string }[]
}

interface KeyRef {
  readonly name: string
  readonly key: string
  readonly optional?: boolean
}

export interface EnvVar {
  readonly name: string
  readonly value?: string
  readonly valueFrom?: {
    readonly secretKeyRef?: KeyRef
    readonly configMapKeyRef?: KeyRef
    readonly fieldRef?: { readonly fieldPath: string }
  }
}

export interface EnvSource {
  readonly prefix?: string
  readonly secretRef?: { readonly name: string; readonly optional?: boolean }
  readonly configMapRef?: { readonly name: string; readonly optional?: boolean }
}

export interface Volume {
  readonly name: string
  readonly configMap?: VolumeSource & { readonly name: string }
  readonly secret?: VolumeSource & { readonly secretName: string }
  readonly emptyDir?: object
}

interface VolumeSource {
  readonly items?: readonly { readonly key: string; readonly path: string }[]
  readonly optional?: boolean
}

const podKinds = new Set(['Deployment', 'StatefulSet'])

/** The pod template among a workload's children, if it has one and asks for at least one replica. */
export function podOf(children: readonly KubernetesObject[]): PodSpec | undefined {
  const owner = children.find(({ kind }) => podKinds.has(kind))
  const spec = owner?.['spec'] as { replicas?: number; template?: { spec?: PodSpec } } | undefined
  return spec?.replicas === 0 ? undefined : spec?.template?.spec
}

/** The names of the Services among a workload's children. */
export const servicesOf = (children: readonly KubernetesObject[]): readonly string[] =>
  children.filter(({ kind }) => kind === 'Service').map(({ metadata }) => metadata.name)

/** Our own data plane is the container whose arguments start with `serve`; the others are the user's. */
export function splitContainers(pod: PodSpec) {
  const all = [...(pod.initContainers ?? []), ...pod.containers]
  return {
    plane: all.find(({ args }) => args?.[0] === 'serve'),
    others: all.filter(({ args }) => args?.[0] !== 'serve'),
  }
}
