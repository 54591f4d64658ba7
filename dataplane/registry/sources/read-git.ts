import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type GitOptions, git } from './git-command.ts'
import { parseCatalog } from './parse.ts'
import { publicAddress } from './public-address.ts'
import { LARGEST_FILE } from './read-file.ts'
import type { Content, Pass, PlaceOf } from './source.ts'
import { SourceError } from './source-error.ts'

type GitPlace = PlaceOf<'git'>

const LOOK_MS = 30_000
const FETCH_MS = 5 * 60_000
/** A repository that needs more room, one state of it, is refused. */
const LARGEST_REPOSITORY = 1024 * 1024 * 1024
const MEASURE_MS = 500

/**
 * Reads a file of a git repository over http or https. The ref is asked for first: as long as it names the commit that was
 * read last nothing is fetched; otherwise the one commit is, without its history.
 */
export async function readGit(place: GitPlace, pass: Pass): Promise<Content | undefined> {
  const options = { settings: await settingsOf(place), timeoutMs: LOOK_MS, maxBytes: 1024 * 1024, signal: pass.signal }
  const commit = place.commit ?? (await commitOf(place, options))
  if (commit === pass.mark) return undefined

  const folder = join(pass.stateDirectory, 'git', pass.source)
  try {
    await fetchCommit(folder, place.repository, commit, options)
    const bytes = await readBlob(folder, commit, place.path, options)
    return { complete: true, batches: [parseCatalog(bytes)], mark: () => commit }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function commitOf({ repository, ref = 'HEAD' }: GitPlace, options: GitOptions): Promise<string> {
  const text = (await git(['ls-remote', '--', repository, ref, `${ref}^{}`], options)).toString()
  const found = new Map(text.split('\n').map((line) => line.split('\t').reverse() as [string, string]))
  // An annotated tag is an object of its own; what it points to has the name with `^{}`.
  const commit = found.get(`${ref}^{}`) ?? found.get(ref)
  if (commit === undefined) throw new SourceError('no_such_ref', `the repository has no ${ref}`)
  return commit
}

async function fetchCommit(folder: string, repository: string, commit: string, options: GitOptions): Promise<void> {
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await git(['init', '--quiet', '--bare', folder], options)

  const tooLarge = new AbortController()
  const watch = setInterval(async () => {
    if ((await sizeOf(folder)) > LARGEST_REPOSITORY)
      tooLarge.abort(new SourceError('too_large', `the repository needs more than ${LARGEST_REPOSITORY} bytes`))
  }, MEASURE_MS)
  try {
    await git(['-C', folder, 'fetch', '--quiet', '--depth=1', '--no-tags', '--', repository, commit], {
      ...options,
      timeoutMs: FETCH_MS,
      signal: AbortSignal.any([options.signal, tooLarge.signal]),
    })
  } finally {
    clearInterval(watch)
  }
}

async function sizeOf(folder: string): Promise<number> {
  const names = await readdir(join(folder, 'objects', 'pack')).catch(() => [])
  const sizes = await Promise.all(
    names.map((name) =>
      stat(join(folder, 'objects', 'pack', name)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

async function readBlob(folder: string, commit: string, path: string, options: GitOptions): Promise<Buffer> {
  const name = `${commit}:${path}`
  const type = await git(['-C', folder, 'cat-file', '-t', name], options).catch((error: SourceError) => {
    throw error.code === 'git_failed' ? new SourceError('file_missing', `the commit has no file ${path}`) : error
  })
  if (type.toString().trim() !== 'blob') throw new SourceError('file_missing', `${path} is no file in the commit`)
  return git(['-C', folder, 'cat-file', 'blob', name], { ...options, maxBytes: LARGEST_FILE })
}

/** Credentials as a header for this host alone, and where the source is held to public addresses, the checked one. */
async function settingsOf({ repository, auth, publicOnly }: GitPlace): Promise<(readonly [string, string])[]> {
  const { origin } = new URL(repository)
  const settings: (readonly [string, string])[] = []
  if (auth !== undefined) {
    const credentials = Buffer.from(`${auth.username}:${await passwordOf(auth.passwordFile)}`).toString('base64')
    settings.push([`http.${origin}/.extraHeader`, `Authorization: Basic ${credentials}`])
  }
  if (publicOnly) {
    settings.push(['http.curloptResolve', await publicAddress(new URL(repository))], ['http.followRedirects', 'false'])
  }
  return settings
}

async function passwordOf(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).trim()
  } catch (error) {
    throw new SourceError(
      'file_unreadable',
      `the password file can’t be read (${(error as NodeJS.ErrnoException).code})`,
    )
  }
}
