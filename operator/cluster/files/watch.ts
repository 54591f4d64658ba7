import { type FSWatcher, statSync, watch } from 'node:fs'
import { basename, dirname, extname } from 'node:path'
import { findFiles } from './find.ts'

interface WatchOptions {
  /** The wait after the last event (milliseconds), so that an editor's write and rename count as one. */
  readonly quietMs?: number
  /** The time between two polls of the files themselves (milliseconds), for file systems that send no events. */
  readonly pollMs?: number
}

export interface ManifestWatch {
  close(): void
}

const fingerprint = (paths: readonly string[]) =>
  findFiles(paths)
    .files.map(({ path }) => {
      const stat = statSync(path, { throwIfNoEntry: false })
      return `${path}\0${stat?.mtimeMs}\0${stat?.size}\0${stat?.ino}`
    })
    .join('\n')

const mayMatter = (name: string) => /\.(ya?ml|json)$/i.test(name) || extname(name) === ''

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
  let last = fingerprint(paths)
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
    const now = fingerprint(paths)
    // An event counts in any case: two versions of one length within a tick of the clock have the same fingerprint.
    if (now === last && !afterEvent) return
    last = now
    onChange()
  }

  function schedule(_event: string, name: string | null) {
    if (name !== null && !mayMatter(name) && !named.has(name)) return
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
