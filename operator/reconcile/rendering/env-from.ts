import { isObject } from '../../../crds/shared/json.ts'
import { listening } from '../../render/pod/server-container.ts'
import type { Conditions } from '../outcome/conditions.ts'

interface ServerSettings {
  readonly transport: string
  readonly env?: readonly { readonly name: string }[]
  readonly secrets?: readonly { readonly key: string; readonly targetEnvName?: string | undefined }[]
  readonly podTemplateSpec?: Readonly<Record<string, unknown>>
}

type Fields = Readonly<Record<string, unknown>>
const itemsOf = (value: unknown): readonly Fields[] => (Array.isArray(value) ? value.filter(isObject) : [])

/**
 * Kubernetes puts `env` before `envFrom`: variables that tell the server where to listen stand before those of a ConfigMap or
 * Secret that holds the same names. Which keys these hold is known to the kubelet alone, so that it is told where it may be.
 */
export function warnOfEnvFrom(spec: ServerSettings, port: number, conditions: Conditions): void {
  const { transport, env = [], secrets = [], podTemplateSpec = {} } = spec
  if (transport === 'stdio') return
  const pod = podTemplateSpec['spec']
  const containers = isObject(pod) ? itemsOf(pod['containers']) : []
  const at = containers.findIndex(({ name }) => name === 'mcp')
  const own = containers[at] ?? {}
  const prefixes = itemsOf(own['envFrom']).map(({ prefix }) => (typeof prefix === 'string' ? prefix : ''))
  const set = new Set<unknown>([
    ...[...env, ...itemsOf(own['env'])].map(({ name }) => name),
    ...secrets.map(({ key, targetEnvName }) => targetEnvName ?? key),
  ])
  const hidden = listening(port)
    .map(({ name }) => name)
    .filter((name) => !set.has(name) && prefixes.some((prefix) => name.startsWith(prefix) && name !== prefix))
  if (hidden.length === 0) return
  const message =
    `/spec/podTemplateSpec/spec/containers/${at}/envFrom: ${hidden.join(', ')}, if there, would have no effect: the ` +
    'operator sets them in env, which Kubernetes puts before envFrom; name them in env, by valueFrom'
  conditions.set('EnvironmentWarning', 'True', 'EnvFromHidden', message)
}
