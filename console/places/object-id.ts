import { findKind, kinds } from '../../crds/index.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'

/** Kind, namespace and name of an object. */
export interface ObjectId {
  readonly kind: string
  readonly namespace: string
  readonly name: string
}

export const identify = ({ kind, metadata: { namespace = 'default', name } }: KubernetesObject): ObjectId => ({
  kind,
  namespace,
  name,
})

export const formatKey = ({ kind, namespace, name }: ObjectId): string => `${kind}/${namespace}/${name}`

/** Returns the short name of a kind, which is a segment of paths. */
const findShortName = (kind: string): string => findKind(kind)?.shortNames[0] ?? kind.toLowerCase()

/** Returns the kind with this short name; undefined if there is none. */
export const kindOfShort = (short: string) => Object.values(kinds).find(({ shortNames }) => shortNames[0] === short)

/** Returns the path of an object's page, or of a part of it. No other function builds these paths. */
export const buildPath = ({ kind, namespace, name }: ObjectId, part = ''): string =>
  `/ns/${encodeURIComponent(namespace)}/${findShortName(kind)}/${encodeURIComponent(name)}${part === '' ? '' : `/${part}`}`

export const isWorkload = (kind: string): boolean => findKind(kind)?.role === 'workload'
/** Tells whether a kind serves MCP at its own listener. */
export const servesMcp = (kind: string): boolean => isWorkload(kind) && kind !== 'MCPRegistry'

const NAMES: Readonly<Record<string, string>> = {
  VirtualMCPServer: 'gateway',
  MCPServer: 'server',
  MCPRemoteProxy: 'remote proxy',
  MCPRegistry: 'registry',
  MCPServerEntry: 'remote server',
  MCPGroup: 'group',
}

export const describeKind = (kind: string): string => NAMES[kind] ?? kind
