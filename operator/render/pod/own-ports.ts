import { dataPlaneContainerName } from '../object/names.ts'
import { containerLists, type Fields, isFields } from './pod-template-rules.ts'

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

const readItems = (value: unknown): readonly Fields[] => (Array.isArray(value) ? value.filter(isFields) : [])
const readSpec = (patch: unknown): Fields => {
  const spec = isFields(patch) ? patch['spec'] : undefined
  return isFields(spec) ? spec : {}
}

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

const portNames = (kind: string): readonly string[] => (kind === 'MCPRegistry' ? ['http', 'admin'] : ['mcp', 'admin'])

/**
 * Returns ports of a user's containers that have the name of one of ours: anyone who looks for the name may find the
 * wrong port. Takes a template of any shape.
 */
export function takenPortNames(kind: string, patch: unknown): readonly TakenPart[] {
  const names = portNames(kind)
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
export function takenPorts(kind: string, own: OwnContainer, patch: unknown): readonly TakenPart[] {
  const numbers = new Set(own.ports.map(({ containerPort }) => containerPort))
  const names = portNames(kind)
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
export function takenMounts(own: OwnContainer, patch: unknown): readonly TakenPart[] {
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
export function takenVolumes(patch: unknown, own: ReadonlySet<string>): readonly TakenPart[] {
  return readItems(readSpec(patch)['volumes']).flatMap(({ name }, at) =>
    typeof name === 'string' && own.has(name)
      ? [
          {
            pointer: `/spec/volumes/${at}/name`,
            message: `${name} is the name of a volume of the proxy; choose another name`,
          },
        ]
      : [],
  )
}
