import type { ApiServer } from '../../cluster/kubernetes/api-server.ts'
import type { SecretPresence, World } from '../../model/index.ts'
import { valueRevision } from '../../render/object/canonical.ts'
import type { Contents } from './current-contents.ts'
import { type Dependency, onObject } from './dependencies.ts'
import { type ContentObject, ReferencedContent } from './referenced-content.ts'
import type { ReadRevisionKey } from './revision-key.ts'
import type { Watches } from './watches.ts'

interface ContentsOptions {
  readonly api: ApiServer
  readonly world: World
  readonly watches: Watches
  readonly revisionKey: ReadRevisionKey
  readonly isWanted: (dependency: Dependency) => boolean
  readonly onChange: (dependency: Dependency) => void
}

const SECRETS = { group: '', version: 'v1', plural: 'secrets', kind: 'Secret' }
const CONFIG_MAPS = { group: '', version: 'v1', plural: 'configmaps', kind: 'ConfigMap' }

/** Of a Secret nothing is kept but its keys, each with what changes with its value: without a key for that, its version. */
function presenceOf({ data = {}, metadata }: ContentObject, key: Buffer | undefined): SecretPresence {
  const { namespace, name, resourceVersion = '' } = metadata
  const revisionOf = (field: string, value: string) =>
    key ? valueRevision(key, `${namespace}/${name}/${field}`, value) : resourceVersion
  return { keys: new Map(Object.entries(data).map(([field, value]) => [field, revisionOf(field, value)])) }
}

/** Adds the metadata watches of Secrets and ConfigMaps; gives, by kind, what reads the referenced ones. */
export function watchContents(options: ContentsOptions): Contents {
  const { api, world, watches } = options
  const shared = (kind: string) => ({
    api,
    isWanted: (namespace: string, name: string) => options.isWanted(onObject(kind, namespace, name)),
    onChange: (namespace: string, name: string) => options.onChange(onObject(kind, namespace, name)),
  })
  const secrets = new ReferencedContent({
    ...shared('Secret'),
    resource: SECRETS,
    into: world.secrets,
    project: async (object) => presenceOf(object, await options.revisionKey()),
  })
  const configMaps = new ReferencedContent({
    ...shared('ConfigMap'),
    resource: CONFIG_MAPS,
    into: world.configMaps,
    project: ({ data = {} }: ContentObject) => ({ data }),
  })
  watches.add({ resource: SECRETS, metadataOnly: true, storeOf: (namespace) => secrets.store(namespace) })
  watches.add({ resource: CONFIG_MAPS, metadataOnly: true, storeOf: (namespace) => configMaps.store(namespace) })
  return new Map<string, ReferencedContent<unknown>>([
    ['Secret', secrets],
    ['ConfigMap', configMaps],
  ])
}
