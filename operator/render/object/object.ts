import type { KubernetesObject, OwnerReference } from '../../model/view.ts'
import { canonicalYaml, hashText, sortedKeys } from './canonical.ts'

export const VERSION = 'v1beta1'

export const INSTALLATION = /^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$/

/** Builds the owner reference for garbage collection. Empty while the workload has no uid, as in files. */
function buildOwnerReferences(workload: Workload, group: string): { ownerReferences?: OwnerReference[] } {
  const { name, uid } = workload.metadata
  if (uid === undefined) return {}
  const owner = { apiVersion: `${group}/${VERSION}`, kind: workload.kind, name, uid }
  return { ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: true }] }
}

/** The identity of a child, with labels and annotations besides those of every child. */
interface ChildIdentity {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

export const stringMap = <K extends string>(key: K, value: Readonly<Record<string, string>>) =>
  (Object.keys(value).length === 0 ? {} : { [key]: sortedKeys(value) }) as { [P in K]?: Record<string, string> }

/** Builds a labelled, owned child in the workload's namespace. Our own labels win over `identity.labels`. */
export function buildChild(
  workload: Workload,
  group: string,
  identity: ChildIdentity,
  body: Record<string, unknown>,
): KubernetesObject {
  return {
    apiVersion: identity.apiVersion,
    kind: identity.kind,
    metadata: {
      name: identity.name,
      namespace: workload.metadata.namespace,
      ...stringMap('labels', { ...identity.labels, ...buildLabels(workload) }),
      ...stringMap('annotations', identity.annotations ?? {}),
      ...buildOwnerReferences(workload, group),
    },
    ...body,
  }
}

/** Returns the label that names the installation that manages an object. */
export const formatInstallationLabel = (group: string): string => `${group}/installation`

/**
 * Builds a function that tells whether an installation manages an object: a named one the objects whose label has its
 * name, the unnamed one those without the label.
 */
export const isOfInstallation =
  (group: string, installation: string | undefined) =>
  ({ metadata }: KubernetesObject): boolean =>
    (metadata as { readonly labels?: Readonly<Record<string, string>> }).labels?.[formatInstallationLabel(group)] ===
    installation

/** The container of an MCPServer's own server. */
export const serverContainerName = 'mcp'

interface Naming {
  readonly suffix: string
  readonly component: 'server' | 'proxy' | 'gateway' | 'registry'
  readonly container: 'portico' | 'vmcp'
}

const naming: Readonly<Record<string, Naming>> = {
  MCPServer: { suffix: 'mcp', component: 'server', container: 'portico' },
  MCPRemoteProxy: { suffix: 'mcprp', component: 'proxy', container: 'portico' },
  VirtualMCPServer: { suffix: 'vmcp', component: 'gateway', container: 'vmcp' },
  MCPRegistry: { suffix: 'mcpreg', component: 'registry', container: 'portico' },
}

export interface Workload {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace: string; readonly uid?: string }
}

const findNaming = (kind: string): Naming => {
  const found = naming[kind]
  if (!found) throw new TypeError(`not a workload: ${kind}`)
  return found
}

/** Returns the name of the Service: `mcp-<name>`, `mcprp-<name>`, `vmcp-<name>` or `mcpreg-<name>`. */
export const serviceName = (kind: string, name: string): string => `${findNaming(kind).suffix}-${name}`

/** Returns the name of our container. Unlike port names, container names are unique in a pod. */
export const dataPlaneContainerName = (kind: string): 'portico' | 'vmcp' => findNaming(kind).container

/** Returns the name of the Deployment, StatefulSet, NetworkPolicy …, or of the child with a further `part`. */
export const childName = (kind: string, name: string, part?: string): string =>
  `${name}-${findNaming(kind).suffix}${part === undefined ? '' : `-${part}`}`

/** Returns the labels that select pods. They never change during the life of a workload. */
export const buildSelector = ({ kind, metadata }: Workload): Record<string, string> => ({
  'app.kubernetes.io/instance': metadata.name,
  'app.kubernetes.io/name': kind.toLowerCase(),
})

/** Returns the recommended labels for everything we render. */
export const buildLabels = (workload: Workload): Record<string, string> => ({
  'app.kubernetes.io/component': findNaming(workload.kind).component,
  'app.kubernetes.io/instance': workload.metadata.name,
  'app.kubernetes.io/managed-by': 'portico',
  'app.kubernetes.io/name': workload.kind.toLowerCase(),
  'app.kubernetes.io/part-of': 'portico',
})

/** A Service's name is a DNS label (63). So is a StatefulSet's name with its revision's hash (11 more). */
const SERVICE = 63
const STATEFUL = 52

/** Returns what is wrong with a workload's name as a source of child names; undefined if it is valid. */
export function findNameProblem(kind: string, name: string, stateful: boolean): string | undefined {
  const { suffix } = findNaming(kind)
  const longest = Math.min(SERVICE, stateful ? STATEFUL : SERVICE) - suffix.length - 1
  if (name.includes('.'))
    return `the name ${JSON.stringify(name)} contains a dot, which the name of a Service can’t have: choose another name`
  if (name.length > longest)
    return `the name is longer than ${longest} characters, which makes the names of its children too long: choose a shorter name`
  return undefined
}

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
export const formatConfigMapName = (workload: Workload): string =>
  childName(workload.kind, workload.metadata.name, 'config')

/** Renders the configuration file in its ConfigMap. It must hold references to secrets, never their values. */
export function renderConfig(
  workload: Workload,
  group: string,
  role: 'gateway' | 'registry',
  config: object,
): RenderedConfig {
  const text = formatConfig(config)
  const hash = hashText(text)
  const name = formatConfigMapName(workload)
  const configMap = buildChild(
    workload,
    group,
    { apiVersion: 'v1', kind: 'ConfigMap', name, annotations: { [`${group}/config-hash`]: hash } },
    { data: { [`${role}.yaml`]: text } },
  )
  const bytes = Buffer.byteLength(text)
  return { configMap, hash, bytes, pinBytes: bytes > CONFIG_BYTES ? countPinBytes(config) : 0 }
}

function countPinBytes({ backends = [] }: { readonly backends?: readonly { readonly pinning?: unknown }[] }): number {
  const pins = backends.flatMap(({ pinning }) => (pinning === undefined ? [] : [pinning]))
  return pins.length === 0 ? 0 : Buffer.byteLength(JSON.stringify(pins))
}

/** Writes a configuration as YAML, which is easier to read, or as JSON if it is long. */
function formatConfig(config: object): string {
  return JSON.stringify(config).length > LONGEST_YAML ? formatByEntry(config) : canonicalYaml(config)
}

/** Writes JSON with one line per field and per entry of its lists, so that a diff shows what has changed. */
function formatByEntry(config: object): string {
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
