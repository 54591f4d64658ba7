import { countValues, isObject } from '../../../crds/settings/json.ts'
import { canonicalQuantity, sortedKeys } from '../object/canonical.ts'
import { dataPlaneContainerName } from '../object/object.ts'
import { mapContainers } from './containers.ts'
import {
  checkImages,
  checkPatch,
  checkRules,
  containerLists,
  type Fields,
  mergeKeys,
  readFields,
  readItems,
} from './pod-template-rules.ts'

export interface PodTemplate {
  metadata: { labels?: Record<string, string>; annotations?: Record<string, string> }
  spec: Record<string, unknown>
}

/** Merges like Kubernetes' strategic merge patch: objects by field, some lists by key; `null` removes a field. */
function merge(base: unknown, patch: unknown, key: string): unknown {
  if (isObject(patch)) return mergeFields(isObject(base) ? base : {}, patch)
  if (!Array.isArray(patch)) return patch
  const mergeKey = mergeKeys[key]
  if (mergeKey === undefined || !Array.isArray(base)) return patch.map(withoutNulls)
  const items = key === 'ports' ? withoutTakenNames(base, patch) : base
  return mergeItems(items as readonly Fields[], patch as readonly Fields[], mergeKey)
}

function mergeFields(base: Fields, patch: Fields): Fields {
  const merged: Record<string, unknown> = { ...base }
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name]
    else merged[name] = merge(handled.has(name) ? withoutHandlers(merged[name], value) : merged[name], value, name)
  }
  return merged
}

/** Hooks and probes: each has exactly one handler. */
const handled = new Set(['preStop', 'postStart', 'livenessProbe', 'readinessProbe', 'startupProbe'])
const handlers = ['exec', 'grpc', 'httpGet', 'sleep', 'tcpSocket']

/** Removes the handler of a hook or probe if the patch has another one: the API server refuses two. */
function withoutHandlers(base: unknown, patch: unknown): unknown {
  if (!isObject(base) || !isObject(patch)) return base
  const chosen = handlers.filter((handler) => isObject(patch[handler]))
  if (chosen.length === 0) return base
  return Object.fromEntries(Object.entries(base).filter(([name]) => !handlers.includes(name) || chosen.includes(name)))
}

/** Removes the value of a variable if the patch sets it in another form: the API server refuses both. */
function withoutOtherValue(base: Fields, patch: Fields): Fields {
  if (isObject(patch['valueFrom'])) return Object.fromEntries(Object.entries(base).filter(([name]) => name !== 'value'))
  if (typeof patch['value'] !== 'string') return base
  return Object.fromEntries(Object.entries(base).filter(([name]) => name !== 'valueFrom'))
}

function mergeItems(base: readonly Fields[], patch: readonly Fields[], mergeKey: string): readonly Fields[] {
  const items = [...base]
  // An author may list thousands: each is looked up once. Of several with one key the first counts.
  const places = new Map<unknown, number>()
  for (const [at, item] of items.entries()) if (!places.has(item[mergeKey])) places.set(item[mergeKey], at)
  for (const item of patch) {
    const key = item[mergeKey]
    const at = places.get(key)
    if (at === undefined) places.set(key, items.push(mergeFields({}, item)) - 1)
    else items[at] = merge(withoutOtherValue(items[at] as Fields, item), item, '') as Fields
  }
  return items
}

/** Removes names from our ports that the template gives to other ports: a name is unique in a container. */
function withoutTakenNames(ports: readonly Fields[], patch: readonly Fields[]): readonly Fields[] {
  const taken = new Map(patch.map(({ name, containerPort }) => [name, containerPort]))
  return ports.map((port) => {
    const { name, ...rest } = port
    return name !== undefined && taken.has(name) && taken.get(name) !== port['containerPort'] ? rest : port
  })
}

/** Prefix of our own volume names; see `startMounts`. */
const OUR_PREFIX = 'portico-'

/**
 * Renames our volumes to names that are free if the template has a volume of the same name from another source, because
 * a volume has one source. A template that removes ours (`emptyDir: null`) refers to our volume.
 */
function withoutTakenVolumes(spec: Fields, patch: unknown): Record<string, unknown> {
  const theirs = isObject(patch) && Array.isArray(patch['volumes']) ? (patch['volumes'] as readonly Fields[]) : []
  const listSources = ({ name: _, ...source }: Fields) => Object.keys(source)
  const taken = new Set(
    ((spec['volumes'] ?? []) as readonly Fields[])
      .filter((ours) => {
        const same = theirs.find(({ name }) => name === ours['name'])
        const isOther = same !== undefined && !listSources(ours).some((source) => source in same)
        return isOther && listSources(same).length > 0 && !String(ours['name']).startsWith(OUR_PREFIX)
      })
      .map(({ name }) => name),
  )
  if (taken.size === 0) return { ...spec }
  const moved = (item: Fields): Fields =>
    taken.has(item['name']) ? { ...item, name: `${OUR_PREFIX}${String(item['name'])}` } : item
  const moveMounts = (container: Fields): Fields => ({
    ...container,
    volumeMounts: ((container['volumeMounts'] ?? []) as Fields[]).map(moved),
  })
  return { ...mapContainers(spec, moveMounts), volumes: (spec['volumes'] as readonly Fields[]).map(moved) }
}

const withoutNulls = (value: unknown): unknown => (isObject(value) ? mergeFields({}, value) : value)

/** Writes the quantities of resources from the template in the form in which the API server returns them. */
function normalizeResources(spec: Fields, problems: string[]): void {
  for (const list of containerLists) {
    for (const { name, resources } of (spec[list] ?? []) as Fields[]) {
      if (!isObject(resources)) continue
      for (const part of ['requests', 'limits'])
        normalizeQuantities(resources[part], `/spec/${list}: container ${String(name)}: ${part}`, problems)
    }
  }
}

function normalizeQuantities(quantities: unknown, title: string, problems: string[]): void {
  if (!isObject(quantities)) return
  for (const [name, value] of Object.entries(quantities)) {
    const canonical = canonicalQuantity(String(value))
    if (canonical === undefined) problems.push(`${title}.${name} is not a quantity`)
    else (quantities as Record<string, unknown>)[name] = canonical
  }
}

/** The most values (texts, numbers, lists and objects at any depth) of a user's pod template. */
const MOST_VALUES = 10_000

/**
 * Merges the user's pod template over ours. `kept` are the labels that select the pods: a template may repeat but not
 * change them. Errors are added to `problems`, each with its pointer in `podTemplateSpec`. The returned template is
 * then unusable.
 */
export function mergePodTemplate(
  base: PodTemplate,
  patch: Fields | undefined,
  kept: Readonly<Record<string, string>>,
  problems: string[],
): PodTemplate {
  if (patch === undefined) return base
  if (countValues(patch, MOST_VALUES) > MOST_VALUES) {
    problems.push(`has more than ${MOST_VALUES} values: texts, numbers, lists and objects together`)
    return base
  }
  checkPatch(patch, base, problems)
  if (problems.length > 0) return base
  const own = { ...base, spec: withoutTakenVolumes(base.spec, patch['spec']) }
  const merged = merge(own, sortedKeys(patch), '') as PodTemplate
  for (const [name, value] of Object.entries(kept)) {
    if (merged.metadata.labels?.[name] !== value) problems.push(`/metadata/labels/${name}: this label selects the pods`)
  }
  checkImages(merged.spec, problems)
  checkRules(merged, problems)
  normalizeResources(merged.spec, problems)
  return merged
}

export interface TakenPart {
  readonly pointer: string
  readonly message: string
}

interface Port {
  readonly name?: string
  readonly containerPort: number
}

export interface OwnContainer {
  readonly name: string
  readonly ports: readonly Port[]
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
}

const readSpec = (patch: unknown): Fields => readFields(readFields(patch)['spec'])

interface PlacedPort {
  readonly pointer: string
  readonly container: unknown
  readonly port: Fields
}

/** Returns the ports that a pod template names, each with its pointer in the template. */
const listPorts = (patch: unknown): readonly PlacedPort[] =>
  containerLists.flatMap((list) =>
    readItems(readSpec(patch)[list]).flatMap((container, at) =>
      readItems(container['ports']).map((port, index) => ({
        pointer: `/spec/${list}/${at}/ports/${index}`,
        container: container['name'],
        port,
      })),
    ),
  )

const listPortNames = (kind: string): readonly string[] =>
  kind === 'MCPRegistry' ? ['http', 'admin'] : ['mcp', 'admin']

/**
 * Returns ports of a user's containers that have the name of one of ours: anyone who looks for the name may find the
 * wrong port. Takes a template of any shape.
 */
export function findTakenPortNames(kind: string, patch: unknown): readonly TakenPart[] {
  const names = listPortNames(kind)
  const own = dataPlaneContainerName(kind)
  return listPorts(patch)
    .filter(({ container, port }) => container !== own && names.includes(port['name'] as string))
    .map(({ pointer, container, port }) => ({
      pointer: `${pointer}/name`,
      message:
        `port ${JSON.stringify(port['name'])} of container ${JSON.stringify(container)} has the name of a port of the ` +
        'proxy in the same pod: the Service uses the number and still leads to the proxy; clients that look for the name may find either',
    }))
}

const isTcp = ({ protocol = 'TCP' }: Fields) => protocol === 'TCP' || protocol === null

/**
 * Returns ports of other containers on numbers of our data plane, and changes of our container's ports. The template
 * has passed `mergePodTemplate`.
 */
export function findTakenPorts(kind: string, own: OwnContainer, patch: unknown): readonly TakenPart[] {
  const numbers = new Set(own.ports.map(({ containerPort }) => containerPort))
  const names = listPortNames(kind)
  return listPorts(patch).flatMap(({ pointer, container, port }) => {
    const { containerPort, name } = port
    const isOurs = numbers.has(containerPort as number)
    if (container !== own.name) {
      if (!isOurs || !isTcp(port)) return []
      const message = `the proxy in the same pod listens on ${containerPort}; choose another port`
      return [{ pointer: `${pointer}/containerPort`, message }]
    }
    const same = own.ports.find((one) => one.containerPort === containerPort)
    if (isOurs && isTcp(port) && (name === undefined || name === same?.name)) return []
    if (!isOurs && !names.includes(name as string)) return []
    return [{ pointer, message: `the ports ${names.join(' and ')} of container ${own.name} can’t be changed` }]
  })
}

/** Returns mounts of our own container that a template would replace. */
export function findTakenMounts(own: OwnContainer, patch: unknown): readonly TakenPart[] {
  const volumes = new Map(own.volumeMounts.map(({ mountPath, name }) => [mountPath, name]))
  return containerLists.flatMap((list) =>
    readItems(readSpec(patch)[list]).flatMap((container, at) =>
      readItems(container['name'] === own.name ? container['volumeMounts'] : undefined).flatMap((mount, index) => {
        const volume = volumes.get(mount['mountPath'] as string)
        if (volume === undefined || mount['name'] === undefined || mount['name'] === volume) return []
        const pointer = `/spec/${list}/${at}/volumeMounts/${index}/name`
        return [{ pointer, message: `${mount['mountPath']} is the mount path of the proxy’s own volume ${volume}` }]
      }),
    ),
  )
}

/** Returns volumes with our names that a template would change. Users may choose the volume of a data plane's state. */
export function findTakenVolumes(patch: unknown, own: ReadonlySet<string>): readonly TakenPart[] {
  return readItems(readSpec(patch)['volumes']).flatMap(({ name }, at) => {
    const message = `${name} is the name of a volume of the proxy; choose another name`
    return own.has(name as string) ? [{ pointer: `/spec/volumes/${at}/name`, message }] : []
  })
}
