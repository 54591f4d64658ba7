import type { Container, EnvSource, EnvVar, Sources } from './pod.ts'

/** Thrown if a pod asks for something that isn't available here; the text says what. */
export class PodProblem extends Error {
  override readonly name = 'PodProblem'
}

const variableName = /^[A-Za-z_][A-Za-z0-9_.-]*$/

function variableValue(variable: EnvVar, sources: Sources): string | undefined {
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
  const values = secretKeyRef ? sources.secret(reference.name) : sources.configMap(reference.name)
  const value = values?.get(reference.key)
  if (value === undefined && !reference.optional) {
    throw new PodProblem(`${variable.name}: there is no key ${reference.key} in ${kind} ${reference.name}`)
  }
  return value?.toString()
}

function* sourceVariables({ prefix = '', secretRef, configMapRef }: EnvSource, sources: Sources) {
  const reference = secretRef ?? configMapRef
  if (!reference) return
  const values = secretRef ? sources.secret(reference.name) : sources.configMap(reference.name)
  if (!values && !reference.optional) {
    throw new PodProblem(`there is no ${secretRef ? 'Secret' : 'ConfigMap'} ${reference.name}`)
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
    for (const [name, value] of sourceVariables(source, sources)) env[name] = value
  }
  for (const variable of container.env ?? []) {
    const value = variableValue(variable, sources)
    if (value !== undefined) env[variable.name] = variable.valueFrom ? value : expand(value, env)
  }
  return env
}
