import type { MCPServer } from '../../../crds/index.ts'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import { podName } from '../../render/rights.ts'
import type { ReconcileContext } from '../outcome/plan.ts'

/** Builds the backend of a stdio server: in a cluster the container beside the proxy, standalone the local command. */
export function stdioBackend(
  { kind, metadata, spec }: MCPServer,
  mounts: Mounts,
  context: ReconcileContext,
): Omit<BackendConfig, 'name'> {
  const local = context.serverCommand?.({ namespace: metadata.namespace, name: metadata.name })
  if (local === undefined)
    return {
      transport: 'stdio',
      stdio: {
        attach: {
          namespace: metadata.namespace,
          pod: podName({ kind, metadata }),
          container: 'mcp',
          tokenFile: mounts.clusterFile('token'),
          caFile: mounts.clusterFile('ca.crt'),
        },
      },
    }
  const { command, cwd, env } = local
  const variables = (spec.env ?? []).map(({ name, value }) => [name, value] as const)
  const envFiles = (spec.secrets ?? []).map(({ name, key, targetEnvName }) => ({
    name: targetEnvName ?? key,
    file: mounts.secretFile(name, key),
  }))
  return {
    transport: 'stdio',
    stdio: {
      command: [...command],
      cwd,
      env: { ...env, ...Object.fromEntries(variables) },
      ...(envFiles.length === 0 ? {} : { envFiles }),
    },
  }
}
