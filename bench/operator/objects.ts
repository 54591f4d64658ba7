import { kinds } from '../../crds/index.ts'
import type { ApiServer } from '../../operator/cluster/kubernetes/api-server.ts'
import { gateway, group, type Manifest, proxy, telemetry } from '../../test/cluster/support/manifests.ts'

export const CHANGED = 'telemetry-0'
const AT_A_TIME = 16

export interface Amounts {
  readonly proxies: number
  readonly gateways: number
  readonly configs: number
  readonly ofTheChanged: number
}

/** Builds configs, groups, their proxies and gateways; each object names one of the configs. */
export function manifests({ proxies, gateways, configs, ofTheChanged }: Amounts): readonly Manifest[] {
  const makeMany = <T>(count: number, make: (index: number) => T) =>
    Array.from({ length: count }, (_, index) => make(index))
  const chooseConfig = (index: number) => (index < ofTheChanged ? CHANGED : `telemetry-${1 + (index % (configs - 1))}`)
  const member = (index: number) => {
    const created = proxy(`proxy-${index}`, chooseConfig(index))
    created.spec['groupRef'] = { name: `group-${index % gateways}` }
    return created
  }
  return [
    ...makeMany(configs, (index) => telemetry(`telemetry-${index}`)),
    ...makeMany(gateways, (index) => group(`group-${index}`)),
    ...makeMany(proxies, member),
    ...makeMany(gateways, (index) => gateway(`gateway-${index}`, chooseConfig(ofTheChanged + index), `group-${index}`)),
  ]
}

/** Creates all objects in order, several at a time. */
export async function create(api: ApiServer, objects: readonly Manifest[]): Promise<void> {
  const waiting = objects.values()
  const worker = async () => {
    for (const object of waiting) await api.create(findResource(object.kind), object.metadata.namespace, object)
  }
  await Promise.all(Array.from({ length: AT_A_TIME }, worker))
}

/** Changes the endpoint for spans in a config. */
export async function changeConfig(api: ApiServer): Promise<void> {
  await api.mergePatch(findResource('MCPTelemetryConfig'), 'default', CHANGED, {
    spec: { openTelemetry: { endpoint: 'https://elsewhere.example:4318' } },
  })
}

/** Counts objects whose status is not of their latest generation. */
export async function countUnreconciled(api: ApiServer): Promise<number> {
  let count = 0
  for (const kind of ['MCPTelemetryConfig', 'MCPGroup', 'MCPRemoteProxy', 'VirtualMCPServer']) {
    const { items } = await api.list<{ metadata: { generation: number }; status?: { observedGeneration: number } }>(
      findResource(kind),
      'default',
      {},
    )
    count += (items ?? []).filter(({ metadata, status }) => status?.observedGeneration !== metadata.generation).length
  }
  return count
}

function findResource(kind: string) {
  const { plural } = kinds[kind as keyof typeof kinds]
  return { group: 'portico.dev', version: 'v1beta1', plural, kind }
}
