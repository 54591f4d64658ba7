import { formatApiVersion, kinds, VERSION } from '../../crds/index.ts'
import type { Manifest, ManifestSet } from '../../operator/cluster/files/index.ts'
import { type ApiServer, isNotFound, listServed } from '../../operator/cluster/kubernetes/api-server.ts'
import { childKinds, childResource, type Resource } from '../../operator/cluster/kubernetes/resource.ts'
import { fillWorld, type KubernetesObject, type World } from '../../operator/model/index.ts'
import { childName } from '../../operator/render/object/object.ts'

const CONTENTS: readonly Resource[] = [
  { group: '', version: 'v1', plural: 'secrets', kind: 'Secret' },
  childResource('ConfigMap'),
]

type Content = KubernetesObject & { readonly data?: Record<string, string> }

/** Reads objects of our kinds in some namespaces; undefined: in all. */
export async function fetchLiveObjects(api: ApiServer, group: string, namespaces: readonly (string | undefined)[]) {
  const found: KubernetesObject[] = []
  for (const namespace of namespaces)
    for (const { kind, plural } of Object.values(kinds))
      found.push(...(await listServed(api, { group, version: VERSION, plural, kind }, { namespace })))
  return found
}

/** Reads the children that Portico has created in some namespaces. */
export async function fetchLiveChildren(api: ApiServer, namespaces: readonly string[]) {
  const found: KubernetesObject[] = []
  for (const namespace of namespaces)
    for (const resource of childKinds)
      found.push(
        ...(await listServed(api, resource, { namespace, labelSelector: 'app.kubernetes.io/managed-by=portico' })),
      )
  return found
}

/** Returns, by MCPServer, the revision of Secret values on its pods, which only the operator can compute. */
export function readRevisions(children: readonly KubernetesObject[], group: string) {
  const revisions = new Map<string, string>(
    children.flatMap(({ kind, metadata, spec }) => {
      const { template } = (spec ?? {}) as { readonly template?: Pick<KubernetesObject, 'metadata'> }
      const revision = template?.metadata?.annotations?.[`${group}/secret-revision`]
      return revision === undefined ? [] : [[`${kind}/${metadata.namespace}/${metadata.name}`, revision] as const]
    }),
  )
  return ({ namespace, name }: { readonly namespace: string; readonly name: string }): string | undefined => {
    const place = `${namespace}/${childName('MCPServer', name)}`
    return revisions.get(`Deployment/${place}`) ?? revisions.get(`StatefulSet/${place}`)
  }
}

/** Applies a manifest to a live object: the author's fields come from the file, the rest stays. */
export function mergeApplied(
  { object }: Manifest,
  live: KubernetesObject | undefined,
  group: string,
): KubernetesObject {
  const { labels, annotations } = object.metadata
  return {
    ...object,
    apiVersion: formatApiVersion(group),
    metadata: {
      ...live?.metadata,
      ...object.metadata,
      ...((labels ?? live?.metadata.labels) && { labels: { ...live?.metadata.labels, ...labels } }),
      ...((annotations ?? live?.metadata.annotations) && {
        annotations: { ...live?.metadata.annotations, ...annotations },
      }),
    },
    ...(live?.['status'] !== undefined && { status: live['status'] }),
  }
}

/** The Secrets and ConfigMaps that were read, by kind and `namespace/name`; undefined: it does not exist. */
export type Contents = Map<string, Content | undefined>

const read = (api: ApiServer, resource: Resource, namespace: string, name: string) =>
  api.get<Content>(resource, namespace, name).catch((error) => {
    if (isNotFound(error)) return undefined
    throw error
  })

type Brought = Pick<ManifestSet, 'secrets' | 'configMaps'>

function put(world: World, { kind, metadata, data = {} }: Content): void {
  const place = `${metadata.namespace}/${metadata.name}`
  if (kind === 'ConfigMap') world.configMaps.set(place, { data })
  else world.secrets.set(place, { keys: new Map(Object.keys(data).map((key) => [key, ''])) })
}

function bring(world: World, { secrets, configMaps }: Brought): void {
  for (const { namespace, name, values } of configMaps) {
    const data = Object.fromEntries([...values].map(([key, value]) => [key, value.toString()]))
    world.configMaps.set(`${namespace}/${name}`, { data })
  }
  for (const { namespace, name, values } of secrets) {
    const live = world.secrets.get(`${namespace}/${name}`)
    const keys = new Map([...(live?.keys.keys() ?? []), ...values.keys()].map((key) => [key, '']))
    world.secrets.set(`${namespace}/${name}`, { keys })
  }
}

/** Builds the world of these objects, with the Secrets and ConfigMaps that they name. */
export async function buildWorld(
  api: ApiServer,
  objects: readonly KubernetesObject[],
  contents: Contents,
  brought: Brought = { secrets: [], configMaps: [] },
): Promise<World> {
  const world = fillWorld({ objects })
  const named = objects.flatMap(({ kind, metadata: { namespace = '', name } }) =>
    world.objects.references(kind, namespace, name).map((one) => ({ ...one, namespace })),
  )
  for (const { kind, namespace, name } of named) {
    const resource = CONTENTS.find((one) => one.kind === kind)
    if (!resource) continue
    const key = `${kind} ${namespace}/${name}`
    if (!contents.has(key)) contents.set(key, await read(api, resource, namespace, name))
    const content = contents.get(key)
    if (content) put(world, { ...content, kind })
  }
  bring(world, brought)
  return world
}
