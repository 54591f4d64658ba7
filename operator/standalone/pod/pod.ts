import type {
  V1Container as Container,
  V1EnvFromSource,
  V1EnvVar,
  V1PodSpec,
  V1Volume as Volume,
} from '@kubernetes/client-node'
import type { CoreObject } from '../../cluster/files/index.ts'
import type { KubernetesObject } from '../../model/view.ts'

export type { Container, Volume }

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
export function findPod(children: readonly KubernetesObject[]): V1PodSpec | undefined {
  const owner = children.find(({ kind }) => podKinds.has(kind))
  const spec = owner?.['spec'] as { replicas?: number; template?: { spec?: V1PodSpec } } | undefined
  return spec?.replicas === 0 ? undefined : spec?.template?.spec
}

/** Returns the names of the Services among a workload's children. */
export const listServices = (children: readonly KubernetesObject[]): readonly string[] =>
  children.filter(({ kind }) => kind === 'Service').map(({ metadata }) => metadata.name)

/** Separates our own data plane, whose arguments start with `serve`, from the user's containers. */
export function splitContainers(pod: V1PodSpec) {
  const all = [...(pod.initContainers ?? []), ...pod.containers]
  return {
    plane: all.find(({ args }) => args?.[0] === 'serve'),
    others: all.filter(({ args }) => args?.[0] !== 'serve'),
  }
}

const find = (objects: readonly CoreObject[], namespace: string, name: string): Values | undefined =>
  objects.find((object) => object.namespace === namespace && object.name === name)?.values

const findRendered = (children: readonly KubernetesObject[], name: string): Values | undefined => {
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
    configMap: (name) => findRendered(children, name) ?? find(files.configMaps, owner.namespace, name),
  }
}

/** Thrown if a pod asks for something that isn't available here; the text says what. */
export class PodProblem extends Error {
  override readonly name = 'PodProblem'
}

const variableName = /^[A-Za-z_][A-Za-z0-9_.-]*$/

function resolveVariable(variable: V1EnvVar, sources: Sources): string | undefined {
  const { secretKeyRef, configMapKeyRef, fieldRef } = variable.valueFrom ?? {}
  if (fieldRef) {
    const fields: Record<string, string> = {
      'metadata.name': sources.pod,
      'metadata.namespace': sources.namespace,
      'status.podIP': '127.0.0.1',
      'status.hostIP': '127.0.0.1',
    }
    const value = fields[fieldRef.fieldPath]
    if (value === undefined) throw new PodProblem(`${variable.name}: there is no field ${fieldRef.fieldPath} here`)
    return value
  }
  const reference = secretKeyRef ?? configMapKeyRef
  if (!reference) return variable.value ?? ''
  const kind = secretKeyRef ? 'Secret' : 'ConfigMap'
  const { name = '' } = reference
  const values = secretKeyRef ? sources.secret(name) : sources.configMap(name)
  const value = values?.get(reference.key)
  if (value === undefined && !reference.optional) {
    throw new PodProblem(`${variable.name}: there is no key ${reference.key} in ${kind} ${name}`)
  }
  return value?.toString()
}

function* listSourceVariables({ prefix = '', secretRef, configMapRef }: V1EnvFromSource, sources: Sources) {
  const reference = secretRef ?? configMapRef
  if (!reference) return
  const { name = '' } = reference
  const values = secretRef ? sources.secret(name) : sources.configMap(name)
  if (!values && !reference.optional) {
    throw new PodProblem(`there is no ${secretRef ? 'Secret' : 'ConfigMap'} ${name}`)
  }
  for (const [key, value] of values ?? []) {
    if (variableName.test(prefix + key)) yield [prefix + key, value.toString()] as const
  }
}

/** Expands `$(NAME)` as Kubernetes does, with variables that stand before; `$$` is a dollar sign. */
const expand = (value: string, before: Readonly<Record<string, string>>) =>
  value.replaceAll(/\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)/g, (match, name: string | undefined) =>
    name === undefined ? '$' : Object.hasOwn(before, name) ? (before[name] as string) : match,
  )

/** Returns a container's environment as the kubelet would make it. Throws a PodProblem if something is missing. */
export function buildEnvironment(container: Container, sources: Sources): Record<string, string> {
  const env: Record<string, string> = {}
  for (const source of container.envFrom ?? []) {
    for (const [name, value] of listSourceVariables(source, sources)) env[name] = value
  }
  for (const variable of container.env ?? []) {
    const value = resolveVariable(variable, sources)
    if (value !== undefined) env[variable.name] = variable.valueFrom ? value : expand(value, env)
  }
  return env
}
