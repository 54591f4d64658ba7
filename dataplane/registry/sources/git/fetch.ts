import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clone, measureSize } from '../format/kept-clones.ts'
import { SourceError } from '../format/source-error.ts'
import { type GitOptions, git } from './git-command.ts'

export const FETCH_MS = 5 * 60_000
const MEASURE_MS = 500
const SHA256_DIGITS = 64
/** Each fetch adds a pack. A clone with so many is fetched anew, which drops what no current commit needs. */
const MOST_PACKS = 50

export interface Fetching {
  readonly clone: Clone
  readonly repository: string
  readonly maxBytes: number
  readonly options: GitOptions
}

const DEPTH = '--depth=1'
/**
 * These flags leave files out. A depth is always set, because a plain web server refuses it. Without one, git in a
 * partial clone would start another git for each missing object, endlessly.
 */
const FILTERED = ['--filter=blob:none', DEPTH]

/** Tells whether a clone has an object, without fetching. */
async function hasObject({ folder }: Clone, id: string, options: GitOptions): Promise<boolean> {
  return git(['--git-dir', folder, 'cat-file', '-e', id], { ...options, settings: [] }).then(
    () => true,
    (error: SourceError) => {
      if (options.signal.aborted || error.code === 'timed_out') throw error
      return false
    },
  )
}

/** Fetches a commit without its history into a clone, and without its files if the server can omit those. */
export async function fetchCommit(fetching: Fetching, commit: string): Promise<void> {
  const { clone, options } = fetching
  const packs = await countPacks(clone)
  if (packs === undefined || packs >= MOST_PACKS) return fetchAnew(fetching, commit)
  if (await hasObject(clone, commit, options)) return
  try {
    await fetchMore(fetching, commit)
  } catch (error) {
    // The fetched objects may be the cause: they are damaged, or take too much room.
    if (!(error instanceof SourceError) || !/^(git_failed|too_large)$/.test(error.code)) throw error
    await fetchAnew(fetching, commit)
  }
}

/** Fetches a file into a clone that has its commit. */
export async function fetchFile(fetching: Fetching, commit: string, file: string): Promise<void> {
  const { clone, options } = fetching
  if (await hasObject(clone, file, options)) return
  try {
    // The server must not assume that we have the files of the commits that we have.
    await fetch(fetching, { flags: FILTERED, settings: [['fetch.negotiationAlgorithm', 'noop']], wanted: file })
  } catch (error) {
    if (!isUnable(error)) throw error
    clone.isWhole = true
    await fetchAnew(fetching, commit)
  }
}

/** Tells whether a server can't omit files, or send one alone. */
const isUnable = (error: unknown) =>
  error instanceof SourceError && /^(git_failed|no_shallow|no_such_ref)$/.test(error.code)

/** Fetches into an empty clone. All ids of a repository are of one kind; those of SHA-256 have 64 digits. */
async function fetchAnew(fetching: Fetching, commit: string): Promise<void> {
  const { clone, options } = fetching
  const { folder } = clone
  await rm(folder, { recursive: true, force: true })
  const format = commit.length === SHA256_DIGITS ? ['--object-format=sha256'] : []
  await git(['init', '--quiet', '--bare', '--template=', ...format, folder], { ...options, settings: [] })
  await fetchMore(fetching, commit)
}

async function fetchMore(fetching: Fetching, commit: string): Promise<void> {
  const { clone } = fetching
  // Refs tell the server what we have.
  const wanted = `${commit}:refs/portico/${commit}`
  if (!clone.isWhole)
    return fetch(fetching, { flags: FILTERED, wanted }).catch((error: SourceError) => {
      if (!isUnable(error)) throw error
      clone.isWhole = true
      return fetchAnew(fetching, commit)
    })
  await fetch(fetching, { flags: [DEPTH], wanted }).catch((error: SourceError) => {
    if (error.code !== 'no_shallow') throw error
    return fetch(fetching, { flags: [], wanted })
  })
}

/** Counts the packs of a clone; undefined before its first fetch. */
async function countPacks({ folder }: Clone): Promise<number | undefined> {
  if ((await stat(join(folder, 'HEAD')).catch(() => undefined)) === undefined) return undefined
  const names = await readdir(join(folder, 'objects', 'pack')).catch(() => [])
  return names.filter((name) => name.endsWith('.pack')).length
}

interface Asked {
  readonly flags: readonly string[]
  readonly settings?: GitOptions['settings']
  readonly wanted: string
}

async function fetch(
  { clone: { folder }, repository, maxBytes, options }: Fetching,
  { flags, settings = [], wanted }: Asked,
): Promise<void> {
  const tooLarge = new AbortController()
  const measure = async () => {
    if ((await measureSize(folder)) <= maxBytes) return
    const message = `the repository needs more than ${maxBytes} bytes, twice what a source may have (limits.sourceBytes)`
    tooLarge.abort(new SourceError('too_large', message))
  }
  const watch = setInterval(() => {
    // A clone whose size can't be measured must not grow.
    measure().catch((error: Error) => tooLarge.abort(new SourceError('too_large', error.message)))
  }, MEASURE_MS)
  try {
    await git(['--git-dir', folder, 'fetch', '--quiet', '--no-tags', ...flags, '--', 'origin', wanted], {
      ...options,
      // The repository's URL is not stored in a file, since it may have moved by the next time.
      settings: [...(options.settings ?? []), ...settings, ['remote.origin.url', repository]],
      timeoutMs: FETCH_MS,
      signal: AbortSignal.any([options.signal, tooLarge.signal]),
    })
  } finally {
    clearInterval(watch)
  }
  await measure()
  tooLarge.signal.throwIfAborted()
}
