import type { KubernetesObject } from '../model/view.ts'
import { canonicalYaml, sha256 } from './canonical.ts'
import { childName, type Workload } from './names.ts'
import { child } from './object.ts'

/** Largest configuration in bytes: etcd takes 1.5 MB an object, the ConfigMap limit is 1 MiB. */
export const CONFIG_BYTES = 900_000

export interface RenderedConfig {
  readonly configMap: KubernetesObject
  /** `sha256:` over the file's bytes, what the data plane shows on `/status`. */
  readonly hash: string
  readonly bytes: number
}

/** Name of the ConfigMap that holds a workload's data-plane configuration. */
export const configMapName = (workload: Workload): string => childName(workload.kind, workload.metadata.name, 'config')

/** The data plane's configuration file in its ConfigMap. It must hold references to secrets, never their values. */
export function renderConfig(
  workload: Workload,
  group: string,
  role: 'gateway' | 'registry',
  config: object,
): RenderedConfig {
  const text = canonicalYaml(config)
  const hash = sha256(text)
  const name = configMapName(workload)
  const configMap = child(
    workload,
    group,
    { apiVersion: 'v1', kind: 'ConfigMap', name },
    { data: { [`${role}.yaml`]: text } },
    { annotations: { [`${group}/config-hash`]: hash } },
  )
  return { configMap, hash, bytes: Buffer.byteLength(text) }
}
