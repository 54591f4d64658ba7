import { type Dirent, readdirSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'

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
