import { sidecarListeners } from '../network/listeners.ts'
import { serverContainerName } from '../object/names.ts'
import { drainHook, serverSecurityContext } from './containers.ts'
import { apiAccessVolume } from './mounts.ts'
import type { Resources } from './resources.ts'

interface ServerOptions {
  readonly image: string
  readonly args?: readonly string[] | undefined
  readonly env?: readonly { readonly name: string; readonly value: string }[] | undefined
  /** Variables whose values are in Secrets. */
  readonly secrets?:
    | readonly { readonly name: string; readonly key: string; readonly targetEnvName?: string | undefined }[]
    | undefined
  /** The port on which it listens; absent for a stdio server. */
  readonly port?: number | undefined
  readonly resources: Resources
  /** True if the server uses a ServiceAccount that was chosen for it, and gets the token of that account. */
  readonly apiAccess: boolean
}

const API_VOLUME = 'api-access'
const API_PATH = '/var/run/secrets/kubernetes.io/serviceaccount'

/** Returns the variables of a listening server. Servers differ in the variable for the port: each gets both. */
export const listening = (port: number) => [
  { name: 'PORT', value: String(port) },
  { name: 'MCP_PORT', value: String(port) },
  { name: 'HOST', value: '127.0.0.1' },
]

/**
 * Builds the environment in the given order, because `$(NAME)` refers to earlier variables only. A later variable of
 * the same name wins: the user's values take precedence over ours.
 */
function environment(options: ServerOptions) {
  const fromSecrets = (options.secrets ?? []).map(({ name, key, targetEnvName }) => ({
    name: targetEnvName ?? key,
    valueFrom: { secretKeyRef: { name, key } },
  }))
  const given = options.port === undefined ? [] : listening(options.port)
  const variables = new Map<string, object>()
  for (const variable of [...given, ...(options.env ?? []).map(({ name, value }) => ({ name, value })), ...fromSecrets])
    variables.set(variable.name, variable)
  return [...variables.values()]
}

/** Builds the user's container and the volumes that only it mounts. */
export function serverContainer(options: ServerOptions): { readonly container: object; readonly volumes: object[] } {
  const { port, apiAccess } = options
  const env = environment(options)
  const container = {
    name: serverContainerName,
    image: options.image,
    ...(options.args?.length ? { args: options.args } : {}),
    ...(env.length === 0 ? {} : { env }),
    ...(port === undefined
      ? { stdin: true, stdinOnce: true }
      : { ports: [{ name: 'server', containerPort: port, protocol: 'TCP' }] }),
    lifecycle: drainHook(sidecarListeners),
    resources: options.resources,
    securityContext: serverSecurityContext,
    volumeMounts: [
      { name: 'tmp', mountPath: '/tmp' },
      ...(apiAccess ? [{ name: API_VOLUME, mountPath: API_PATH, readOnly: true }] : []),
    ],
  }
  const volumes = [
    { name: 'tmp', emptyDir: {} },
    ...(apiAccess ? [apiAccessVolume(API_VOLUME, { namespace: true })] : []),
  ]
  return { container, volumes }
}
