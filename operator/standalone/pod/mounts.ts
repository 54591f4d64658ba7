import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { CLUSTER_VOLUME, MOUNT_ROOT } from '../../render/pod/containers.ts'
import { replaceFile } from '../ports/state.ts'
import { type Container, PodProblem, type Sources, type Volume } from './pod.ts'

/** A mounted volume: a folder below the workload's root. Without files it is a folder to write in. */
export interface MountedFolder {
  readonly mountPath: string
  readonly path: string
  readonly files?: ReadonlyMap<string, Buffer>
}

function resolvePath(root: string, mountPath: string): string {
  const inRoot = relative(MOUNT_ROOT, mountPath)
  const localName = inRoot === '' || inRoot.startsWith('..') ? join('writable', mountPath) : inRoot
  const path = resolve(root, localName)
  if (path !== root && !path.startsWith(root + sep)) throw new PodProblem(`${mountPath} can't be mounted here`)
  return path
}

const NO_API_SERVER =
  'it asks the API server of its cluster (keySource: cluster, type kubernetesServiceAccount, or a Kubernetes source), and there is none here: apply it to a cluster, or name an issuer whose keys are found by discovery or jwksUrl'

/** Returns why a volume that is neither a ConfigMap's nor a Secret's is not available here. */
function describeProblem(volume: Volume): PodProblem {
  if (volume.name === CLUSTER_VOLUME) return new PodProblem(NO_API_SERVER)
  const type = Object.keys(volume).filter((key) => key !== 'name')[0] ?? 'unknown'
  return new PodProblem(`volume ${volume.name} is of type ${type}, which needs a cluster`)
}

function readFiles(volume: Volume, sources: Sources): ReadonlyMap<string, Buffer> | undefined {
  const source = volume.configMap ?? volume.secret
  if (!source) {
    if (volume.emptyDir) return undefined
    throw describeProblem(volume)
  }
  const isSecret = volume.secret !== undefined
  const name = volume.secret?.secretName ?? volume.configMap?.name ?? ''
  const label = `${isSecret ? 'Secret' : 'ConfigMap'} ${name}`
  const values = isSecret ? sources.secret(name) : sources.configMap(name)
  if (!values) {
    if (source.optional) return new Map()
    throw new PodProblem(`there is no ${label}`)
  }
  return source.items ? selectFiles(values, source.items, source.optional ? undefined : label) : values
}

/** Returns the keys that a volume names, by their paths. A key that is missing from `required` is a PodProblem. */
function selectFiles(
  values: ReadonlyMap<string, Buffer>,
  items: readonly { readonly key: string; readonly path: string }[],
  required: string | undefined,
): ReadonlyMap<string, Buffer> {
  const files = new Map<string, Buffer>()
  for (const { key, path } of items) {
    const value = values.get(key)
    if (value) files.set(path, value)
    else if (required !== undefined) throw new PodProblem(`there is no key ${key} in ${required}`)
  }
  return files
}

/** Returns the local folders of a container's mounts. Throws a PodProblem for a volume that isn't available here. */
export function buildMounts(root: string, container: Container, volumes: readonly Volume[], sources: Sources) {
  const folders = (container.volumeMounts ?? []).map(({ name, mountPath, subPath }): MountedFolder => {
    const volume = volumes.find((candidate) => candidate.name === name)
    if (!volume) throw new PodProblem(`there is no volume ${name}`)
    if (subPath !== undefined) throw new PodProblem(`volume ${name} is mounted with a subPath, which needs a cluster`)
    const files = readFiles(volume, sources)
    return { mountPath, path: resolvePath(root, mountPath), ...(files ? { files } : {}) }
  })
  // Longest first, so that a mount below another one is found.
  const byDepth = [...folders].sort((left, right) => right.mountPath.length - left.mountPath.length)
  const here = (value: string) => {
    const folder = byDepth.find(({ mountPath }) => value === mountPath || value.startsWith(`${mountPath}/`))
    return folder ? folder.path + value.slice(folder.mountPath.length) : value
  }
  return { folders, here }
}

const same = (file: string, content: Buffer) => {
  try {
    return readFileSync(file).equals(content)
  } catch {
    // The file doesn't exist or isn't readable, so it is written again.
    return false
  }
}

const selectFolders = (folders: readonly MountedFolder[]) => folders.filter(({ files }) => files !== undefined)

/**
 * Writes changed files, each by renaming, the configuration last, and then removes all others. Returns whether anything
 * changed.
 */
export function writeMounts(root: string, folders: readonly MountedFolder[]): boolean {
  let changed = false
  const isConfig = ({ mountPath }: MountedFolder) => mountPath === `${MOUNT_ROOT}/config`
  mkdirSync(root, { recursive: true, mode: 0o700 })
  for (const folder of [...folders].sort((left, right) => Number(isConfig(left)) - Number(isConfig(right)))) {
    if (writeFolder(folder)) changed = true
  }
  return removeLeftovers(root, folders) || changed
}

/** Writes the changed files of a folder. Returns whether there were any. */
function writeFolder({ path, files }: MountedFolder): boolean {
  let changed = false
  mkdirSync(path, { recursive: true, mode: 0o700 })
  for (const [name, content] of files ?? []) {
    const file = resolve(path, name)
    if (!file.startsWith(path + sep)) throw new PodProblem(`${name} leads out of its volume`)
    if (same(file, content)) continue
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    replaceFile(file, content)
    changed = true
  }
  return changed
}

/** Paths that a clean-up leaves alone: mounted files, and folders that the workload writes in. */
interface KeptPaths {
  readonly files: ReadonlySet<string>
  readonly folders: readonly string[]
}

/** Removes leftovers of earlier versions of a workload from folders that hold files. Returns whether it removed any. */
function removeLeftovers(root: string, folders: readonly MountedFolder[]): boolean {
  const files = new Set(
    selectFolders(folders).flatMap(({ path, files }) =>
      [...(files ?? new Map()).keys()].map((name) => resolve(path, name)),
    ),
  )
  const writable = folders.filter(({ files }) => files === undefined).map(({ path }) => path)
  const removed: string[] = []
  for (const top of readdirSync(root, { withFileTypes: true })) {
    const path = join(root, top.name)
    const isSwept = top.isDirectory() && top.name !== 'writable' && !writable.includes(path)
    if (isSwept && sweep(path, { files, folders: writable }, removed)) rmSync(path, { recursive: true, force: true })
  }
  return removed.length > 0
}

/** Removes all other files below a folder, and subfolders without any. Returns whether the folder is empty then. */
function sweep(folder: string, kept: KeptPaths, removed: string[]): boolean {
  let isEmpty = true
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (kept.folders.includes(path)) isEmpty = false
    else if (entry.isDirectory()) {
      if (sweep(path, kept, removed)) rmSync(path, { recursive: true, force: true })
      else isEmpty = false
    } else if (kept.files.has(path)) isEmpty = false
    else {
      rmSync(path, { force: true })
      removed.push(path)
    }
  }
  return isEmpty
}

/** Removes the files of Secrets when nothing runs that could read them. */
export function removeSecrets(root: string): void {
  rmSync(join(root, 'secrets'), { recursive: true, force: true })
}
