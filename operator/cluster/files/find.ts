import { type Dirent, type FSWatcher, readdirSync, realpathSync, statSync, watch } from 'node:fs'
import { basename, dirname, extname, join } from 'node:path'

export interface FoundFiles {
  readonly files: readonly { readonly path: string; readonly named: boolean }[]
  readonly folders: readonly string[]
  /** Given paths that don't exist or can't be read, with the reason. */
  readonly missing: readonly { readonly path: string; readonly reason: string }[]
}

const isManifestName = (name: string) => /\.(ya?ml|json)$/i.test(name)

/** Tells whether a folder holds tools and packages, not manifests. */
const isForeignFolder = (name: string) => name.startsWith('.') || name === 'node_modules'

/**
 * Tells whether a folder holds the texts that an MCPPin approves, beside the file of that name. A server's text may
 * look like a manifest.
 */
const isOfTexts = (name: string, beside: ReadonlySet<string>) =>
  /^(mcpserver|mcpremoteproxy|mcpserverentry)-/.test(name) && beside.has(`${name}.yaml`)

const byName = (left: Dirent, right: Dirent) => (left.name < right.name ? -1 : left.name > right.name ? 1 : 0)

const describeError = (error: unknown) => {
  const code = (error as NodeJS.ErrnoException).code
  if (code === 'ENOENT') return 'no such file or folder'
  return code === 'EACCES' ? 'no permission to read it' : String((error as Error).message)
}

/**
 * Finds the manifest files under the given paths: folders recursively (`*.yaml`, `*.yml`, `*.json`, sorted), files with
 * any name, each once. Links are followed, circles are not.
 */
export function findFiles(paths: readonly string[]): FoundFiles {
  const files: { path: string; named: boolean }[] = []
  const folders: string[] = []
  const missing: { path: string; reason: string }[] = []
  const seen = new Set<string>()

  const isNew = (path: string) => {
    const real = realpathSync(path)
    if (seen.has(real)) return false
    seen.add(real)
    return true
  }

  const visitEntry = (folder: string, entry: Dirent) => {
    const path = join(folder, entry.name)
    const target = entry.isSymbolicLink() ? statSync(path, { throwIfNoEntry: false }) : entry
    if (target?.isDirectory() && !isForeignFolder(entry.name)) visitFolder(path)
    else if (target?.isFile() && isManifestName(entry.name) && isNew(path)) files.push({ path, named: false })
  }

  const visitFolder = (folder: string) => {
    if (!isNew(folder)) return
    folders.push(folder)
    const entries = readdirSync(folder, { withFileTypes: true }).sort(byName)
    const names = new Set(entries.map(({ name }) => name))
    for (const entry of entries) if (!isOfTexts(entry.name, names)) visitEntry(folder, entry)
  }

  for (const path of paths) {
    try {
      if (statSync(path).isDirectory()) visitFolder(path)
      else if (isNew(path)) files.push({ path, named: true })
    } catch (error) {
      missing.push({ path, reason: describeError(error) })
    }
  }
  return { files, folders, missing }
}

interface WatchOptions {
  /** The wait after the last event (milliseconds), so that an editor's write and rename count as one. */
  readonly quietMs?: number
  /** The time between two polls of the files themselves (milliseconds), for file systems that send no events. */
  readonly pollMs?: number
}

export interface ManifestWatch {
  close(): void
}

const computeFingerprint = (paths: readonly string[]) =>
  findFiles(paths)
    .files.map(({ path }) => {
      const stat = statSync(path, { throwIfNoEntry: false })
      return `${path}\0${stat?.mtimeMs}\0${stat?.size}\0${stat?.ino}`
    })
    .join('\n')

const isPossibleManifest = (name: string) => /\.(ya?ml|json)$/i.test(name) || extname(name) === ''

/**
 * Calls back once for a burst of changes under the given paths. It watches folders, because editors replace files by
 * renaming. A slow poll covers file systems without events, and folders that come and go.
 */
export function watchManifests(
  paths: readonly string[],
  onChange: () => void,
  { quietMs = 60, pollMs = 2000 }: WatchOptions = {},
): ManifestWatch {
  const watchers = new Map<string, FSWatcher>()
  const named = new Set(paths.map((path) => basename(path)))
  let last = computeFingerprint(paths)
  let quiet: NodeJS.Timeout | undefined

  const forget = (folder: string) => {
    watchers.get(folder)?.close()
    watchers.delete(folder)
  }

  const follow = () => {
    const { folders, files } = findFiles(paths)
    const wanted = new Set([...folders, ...files.filter(({ named }) => named).map(({ path }) => dirname(path))])
    for (const folder of watchers.keys()) if (!wanted.has(folder)) forget(folder)
    for (const folder of wanted) {
      if (watchers.has(folder)) continue
      try {
        const watcher = watch(folder, schedule)
        watcher.on('error', () => forget(folder))
        watchers.set(folder, watcher)
      } catch {
        // A watch is not available (a limit, a folder that just went away). The poll sees its changes.
      }
    }
  }

  const checkFiles = (afterEvent: boolean) => {
    follow()
    const now = computeFingerprint(paths)
    // An event counts in any case: two versions of one length within a tick of the clock have the same fingerprint.
    if (now === last && !afterEvent) return
    last = now
    onChange()
  }

  function schedule(_event: string, name: string | null) {
    if (name !== null && !isPossibleManifest(name) && !named.has(name)) return
    clearTimeout(quiet)
    quiet = setTimeout(checkFiles, quietMs, true)
  }

  const poll = setInterval(checkFiles, pollMs, false)
  follow()
  return {
    close() {
      clearInterval(poll)
      clearTimeout(quiet)
      for (const folder of [...watchers.keys()]) forget(folder)
    },
  }
}
