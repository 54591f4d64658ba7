import { checkManifests, type ManifestSet, readManifests } from '../../operator/cluster/files/index.ts'
import { type Given, type Io, type Option, UsageError } from '../command.ts'
import { hasErrors, printFindings } from '../findings.ts'
import { readApiGroup, readManifestPaths } from '../options/manifests.ts'
import { type Collected, collectFromCluster, collectFromFiles, type Server } from './collect.ts'
import { type Pinned, type PinSpec, readPinned } from './pinned.ts'

const KINDS: ReadonlySet<string> = new Set(['MCPServer', 'MCPRemoteProxy', 'MCPServerEntry'])

export const serverOption: Option = {
  type: 'string',
  multiple: true,
  value: 'NAME',
  description: 'One server alone, as NAME or KIND/NAME; repeatable. Default: all in the manifests.',
}

export const pinKubeconfigOption: Option = {
  type: 'string',
  value: 'FILE',
  description: 'Ask the data planes that run in this cluster. Default: the manifests are started here, as by run.',
}

export const pinsFolderOption: Option = {
  type: 'string',
  short: 'o',
  value: 'DIR',
  description: 'Folder of the pins. Default: pins in the folder of the manifests.',
}

export interface PinsInFile {
  readonly file: string
  readonly server: Pick<Server, 'kind' | 'namespace' | 'name'>
  readonly pinned: Pinned
}

export interface PinInput {
  readonly set: ManifestSet
  readonly servers: readonly Server[]
  readonly pins: readonly PinsInFile[]
}

/** Reads manifests and finds their servers and pins. Undefined after printing errors. */
export function readPinInput(given: Given, io: Io): PinInput | undefined {
  const set = readManifests(readManifestPaths(given), readApiGroup(given, io))
  const { valid, findings } = checkManifests(set)
  const errors = [...set.findings, ...findings].filter(({ severity }) => severity === 'error')
  if (hasErrors(errors)) {
    printFindings(errors, io)
    return undefined
  }
  const all = valid
    .filter(({ id }) => KINDS.has(id.kind))
    .map(({ id, object }): Server => {
      const { groupRef } = object['spec'] as { readonly groupRef?: { readonly name: string } }
      const group = id.kind === 'MCPServerEntry' ? groupRef?.name : undefined
      return { ...id, kind: id.kind as Server['kind'], group }
    })
  const wanted = given.texts('server')
  const isWanted = ({ kind, name }: Server, text: string) =>
    text === name || text.toLowerCase() === `${kind}/${name}`.toLowerCase()
  for (const text of wanted)
    if (!all.some((server) => isWanted(server, text)))
      throw new UsageError(`--server ${text}: no such server in the manifests`)
  const servers = wanted.length === 0 ? all : all.filter((server) => wanted.some((text) => isWanted(server, text)))
  if (servers.length === 0) throw new UsageError('the manifests have no MCPServer, MCPRemoteProxy or MCPServerEntry')
  const pins = valid
    .filter(({ id }) => id.kind === 'MCPPin')
    .map(({ id, object, file }): PinsInFile => {
      const spec = object['spec'] as PinSpec
      return { file, server: { ...spec.targetRef, namespace: id.namespace }, pinned: readPinned(spec) }
    })
  return { set, servers, pins }
}

/** Asks for the definitions of the servers: a cluster if one is named, else the manifests, started here. */
export function collect({ servers, set }: PinInput, given: Given, io: Io): Promise<Collected> {
  const kubeconfig = given.text('kubeconfig')
  if (kubeconfig !== undefined) return collectFromCluster(servers, { kubeconfig, group: set.group, io })
  return collectFromFiles(servers, { paths: readManifestPaths(given), group: readApiGroup(given, io), io })
}
