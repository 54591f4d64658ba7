import type { KubernetesObject } from '../../model/view.ts'
import { canonicalYaml, sha256 } from './canonical.ts'
import { child, childName, type Workload } from './object.ts'

/** The largest configuration in bytes. A ConfigMap holds 1 MiB, of which metadata and other writers take their part. */
export const CONFIG_BYTES = 900_000
/**
 * The longest configuration (JSON characters) written as YAML. A data plane reads 800 kB of YAML in half a second, in
 * which it serves nobody, and JSON in 3 ms.
 */
const LONGEST_YAML = 32_768

export interface RenderedConfig {
  readonly configMap: KubernetesObject
  /** `sha256:` over the file's bytes, as the data plane shows it on `/status`. */
  readonly hash: string
  readonly bytes: number
  /** The bytes of all pins of definitions in it; 0 unless it is too large. */
  readonly pinBytes: number
}

/** Returns the name of the ConfigMap with a workload's data-plane configuration. */
export const configMapName = (workload: Workload): string => childName(workload.kind, workload.metadata.name, 'config')

/** Renders the configuration file in its ConfigMap. It must hold references to secrets, never their values. */
export function renderConfig(
  workload: Workload,
  group: string,
  role: 'gateway' | 'registry',
  config: object,
): RenderedConfig {
  const text = configText(config)
  const hash = sha256(text)
  const name = configMapName(workload)
  const configMap = child(
    workload,
    group,
    { apiVersion: 'v1', kind: 'ConfigMap', name, annotations: { [`${group}/config-hash`]: hash } },
    { data: { [`${role}.yaml`]: text } },
  )
  const bytes = Buffer.byteLength(text)
  return { configMap, hash, bytes, pinBytes: bytes > CONFIG_BYTES ? pinBytesIn(config) : 0 }
}

function pinBytesIn({ backends = [] }: { readonly backends?: readonly { readonly pinning?: unknown }[] }): number {
  const pins = backends.flatMap(({ pinning }) => (pinning === undefined ? [] : [pinning]))
  return pins.length === 0 ? 0 : Buffer.byteLength(JSON.stringify(pins))
}

/** Writes a configuration as YAML, which is easier to read, or as JSON if it is long. */
function configText(config: object): string {
  return JSON.stringify(config).length > LONGEST_YAML ? jsonByEntry(config) : canonicalYaml(config)
}

/** Writes JSON with one line per field and per entry of its lists, so that a diff shows what has changed. */
function jsonByEntry(config: object): string {
  const fields = Object.entries(config).flatMap(([key, value]: [string, unknown]) => {
    if (value === undefined) return []
    const isList = Array.isArray(value) && value.length > 0
    const text = isList
      ? `[\n${value.map((entry) => `  ${JSON.stringify(entry)}`).join(',\n')}\n]`
      : JSON.stringify(value)
    return [`${JSON.stringify(key)}: ${text}`]
  })
  return `{\n${fields.join(',\n')}\n}\n`
}
