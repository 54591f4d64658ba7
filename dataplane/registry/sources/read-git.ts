import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { bytesOf, LARGEST_FILE } from './file-content.ts'
import { type GitOptions, git } from './git-command.ts'
import { readCatalog } from './parse.ts'
import { publicAddress } from './public-address.ts'
import type { Pass, PlaceOf, ReadChange } from './source.ts'
import { SourceError } from './source-error.ts'
import { openSpool, spool } from './spool.ts'

type GitPlace = PlaceOf<'git'>

const LOOK_MS = 30_000
const FETCH_MS = 5 * 60_000
/** A repository that needs more room, one state of it, is refused. */
const LARGEST_REPOSITORY = 1024 * 1024 * 1024
const MEASURE_MS = 500

/**
 * Reads a file of a git repository over http or https, or of one on this machine (`file:`). The ref is asked for first: as
 * long as it names the commit that was read last nothing is fetched; otherwise the one commit is, without its history
 * where the server can leave that out, and the file is read if it is another.
 */
export async function readGit(place: GitPlace, pass: Pass): Promise<ReadChange | undefined> {
  const options = { settings: await settingsOf(place), timeoutMs: LOOK_MS, maxBytes: 1024 * 1024, signal: pass.signal }
  const [commitBefore, fileBefore] = pass.mark?.split(' ') ?? []
  const commit = place.commit ?? (await commitOf(place, options))
  if (commit === commitBefore) return undefined

  return async function readCommit() {
    const folder = join(pass.stateDirectory, 'git', pass.source)
    pass.parts.defer(() => rm(folder, { recursive: true, force: true }))
    await fetchCommit(folder, place.repository, commit, options)
    const file = await fileIn(folder, commit, place.path, options)
    const mark = `${commit} ${file}`
    if (file === fileBefore) return { newMark: mark }
    const spooled = await openSpool(pass)
    const take = (piece: Buffer) => spool(spooled, piece)
    await git(['-C', folder, 'cat-file', 'blob', file], {
      ...options,
      maxBytes: LARGEST_FILE,
      timeoutMs: FETCH_MS,
      take,
    })
    return { complete: true, batches: readCatalog(bytesOf(spooled)), mark: () => mark }
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
    const signal = AbortSignal.any([options.signal, tooLarge.signal])
    const fetch = (...depth: readonly string[]) =>
      git(['-C', folder, 'fetch', '--quiet', ...depth, '--no-tags', '--', repository, commit], {
        ...options,
        timeoutMs: FETCH_MS,
        signal,
      })
    await fetch('--depth=1').catch((error: SourceError) => {
      if (error.code !== 'no_shallow') throw error
      return fetch()
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

/** The object id of a file in a commit. */
async function fileIn(folder: string, commit: string, path: string, options: GitOptions): Promise<string> {
  const ask = async (...args: string[]) => (await git(['-C', folder, ...args], options)).toString().trim()
  const id = await ask('rev-parse', '--verify', '--quiet', '--end-of-options', `${commit}:${path}`).catch(
    (error: SourceError) => {
      throw error.code === 'git_failed' ? new SourceError('file_missing', `the commit has no file ${path}`) : error
    },
  )
  if ((await ask('cat-file', '-t', id)) !== 'blob')
    throw new SourceError('file_missing', `${path} is no file in the commit`)
  return id
}

/** Credentials as a header for this host alone, and where the source is held to public addresses, the checked one. */
async function settingsOf({ repository, auth, publicOnly }: GitPlace): Promise<(readonly [string, string])[]> {
  const { origin, protocol } = new URL(repository)
  const settings: (readonly [string, string])[] = []
  if (protocol === 'file:') settings.push(['protocol.file.allow', 'always'])
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
