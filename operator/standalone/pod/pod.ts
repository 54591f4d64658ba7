import type { CoreObject } from '../../cluster/files/index.ts'
import type { KubernetesObject } from '../../model/view.ts'

/** The parts of a pod template that standalone uses. */
interface PodSpec {
  readonly containers: readonly Container[]
  readonly initContainers?: readonly Container[]
  readonly volumes?: readonly Volume[]
}

export interface Container {
  readonly name: string
  readonly image?: string
  readonly args?: readonly string[]
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

/** The Secrets and ConfigMaps of a pod's namespace. Rendered ones win over those in the files. */
export interface Sources {
  readonly namespace: string
  readonly pod: string
  secret(name: string): ReadonlyMap<string, Buffer> | undefined
  configMap(name: string): ReadonlyMap<string, Buffer> | undefined
}

type Values = ReadonlyMap<string, Buffer>

/** Returns the pod template among a workload's children, if there is one with at least one replica. */
export function findPod(children: readonly KubernetesObject[]): PodSpec | undefined {
  const owner = children.find(({ kind }) => podKinds.has(kind))
  const spec = owner?.['spec'] as { replicas?: number; template?: { spec?: PodSpec } } | undefined
  return spec?.replicas === 0 ? undefined : spec?.template?.spec
}

/** Returns the names of the Services among a workload's children. */
export const listServices = (children: readonly KubernetesObject[]): readonly string[] =>
  children.filter(({ kind }) => kind === 'Service').map(({ metadata }) => metadata.name)

/** Separates our own data plane, whose arguments start with `serve`, from the user's containers. */
export function splitContainers(pod: PodSpec) {
  const all = [...(pod.initContainers ?? []), ...pod.containers]
  return {
    plane: all.find(({ args }) => args?.[0] === 'serve'),
    others: all.filter(({ args }) => args?.[0] !== 'serve'),
  }
}

const find = (objects: readonly CoreObject[], namespace: string, name: string): Values | undefined =>
  objects.find((object) => object.namespace === namespace && object.name === name)?.values

const rendered = (children: readonly KubernetesObject[], name: string): Values | undefined => {
  const child = children.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === name)
  const content = child?.['data'] as Record<string, string> | undefined
  return content && new Map(Object.entries(content).map(([key, value]) => [key, Buffer.from(value)]))
}

export function collectSources(
  owner: { readonly namespace: string; readonly name: string },
  files: { readonly secrets: readonly CoreObject[]; readonly configMaps: readonly CoreObject[] },
  children: readonly KubernetesObject[],
): Sources {
  return {
    namespace: owner.namespace,
    pod: owner.name,
    secret: (name) => find(files.secrets, owner.namespace, name),
    configMap: (name) => rendered(children, name) ?? find(files.configMaps, owner.namespace, name),
  }
}
