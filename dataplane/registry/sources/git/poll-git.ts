import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { request } from 'undici'
import { createBudget } from '../format/budget.ts'
import { readCatalog } from '../format/parse.ts'
import { readSmallFile } from '../format/small-file.ts'
import type { LocationOf, Pass, ReadChange } from '../format/source.ts'
import { SourceError } from '../format/source-error.ts'
import { openSpool } from '../format/spool.ts'
import { type GitOptions, git } from './git-command.ts'
import { addressOf } from './public-address.ts'

type GitLocation = LocationOf<'git'>

const POLL_MS = 30_000
/** What git answers but for the file. */
const SMALL = 1024 * 1024
const REDIRECTS = 5
const FETCH_MS = 5 * 60_000
/** A repository that needs more room, one state of it, than so many times what a source may have is refused. */
const REPOSITORY_SHARE = 2
const MEASURE_MS = 500
const SHA256_DIGITS = 64
/** What the file of a repository begins with whose content is kept elsewhere. */
const LFS = Buffer.from('version https://git-lfs.github.com/spec/')

const lfsPointer = (path: string) =>
  `${path} is a pointer of Git LFS, which is not followed: commit the file itself, or read it by a URL`

/**
 * Reads a file of a git repository over http or https, or of one on this machine (`file:`). The ref is asked for first: as
 * long as it names the commit that was read last nothing is fetched; otherwise the one commit is, without its history
 * where the server can leave that out, and the file is read if it is another.
 */
export async function pollGit(location: GitLocation, pass: Pass): Promise<ReadChange | undefined> {
  const authorization = await authorizationOf(location)
  const at = await openRepository(location, authorization, pass.signal)
  const [commitBefore, fileBefore] = pass.cursor?.split(' ') ?? []
  const commit = location.commit ?? (await at((repository, options) => commitOf(repository, location.ref, options)))
  if (commit === commitBefore) return undefined

  return async function readCommit() {
    const folder = resolve(pass.stateDirectory, 'git', pass.source)
    pass.parts.defer(() => rm(folder, { recursive: true, force: true }))
    const maxBytes = pass.maxBytes * REPOSITORY_SHARE
    await at((repository, options) => fetchCommit({ folder, repository, commit, maxBytes }, options))
    const options = { timeoutMs: POLL_MS, maxBytes: SMALL, signal: pass.signal }
    const path = location.path.replace(/^(?:\.?\/+)+/, '')
    const file = await fileIn(folder, commit, path, options)
    const cursor = `${commit} ${file}`
    if (file === fileBefore) return { newCursor: cursor }
    const spool = await openSpool(pass)
    await git(['--git-dir', folder, 'cat-file', 'blob', file], {
      ...options,
      maxBytes: pass.maxBytes,
      timeoutMs: FETCH_MS,
      take: (piece) => {
        if (piece.subarray(0, LFS.length).equals(LFS)) throw new SourceError('file_missing', lfsPointer(path))
        return spool.write(piece)
      },
    })
    return { complete: true, batches: readCatalog(spool.read(), createBudget(pass.maxBytes)), cursor: () => cursor }
  }
}

async function commitOf(repository: string, ref = 'HEAD', options: GitOptions): Promise<string> {
  const text = (await git(['ls-remote', '--', repository, ref, `${ref}^{}`], options)).toString()
  const found = new Map(text.split('\n').map((line) => line.split('\t').reverse() as [string, string]))
  // An annotated tag is an object of its own; what it points to has the name with `^{}`.
  const commit = found.get(`${ref}^{}`) ?? found.get(ref)
  if (commit === undefined) throw new SourceError('no_such_ref', `the repository has no ${ref}`)
  return commit
}

interface Fetch {
  readonly folder: string
  readonly repository: string
  readonly commit: string
  /** Of the disk. */
  readonly maxBytes: number
}

async function fetchCommit({ folder, repository, commit, maxBytes }: Fetch, options: GitOptions): Promise<void> {
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true, mode: 0o700 })
  // A repository is of one kind of ids; those of SHA-256 have 64 digits.
  const format = commit.length === SHA256_DIGITS ? ['--object-format=sha256'] : []
  await git(['init', '--quiet', '--bare', ...format, folder], options)

  const tooLarge = new AbortController()
  const measure = async () => {
    if ((await sizeOf(folder)) <= maxBytes) return
    const message = `the repository needs more than ${maxBytes} bytes, twice what a source may have (limits.sourceBytes)`
    tooLarge.abort(new SourceError('too_large', message))
  }
  const watch = setInterval(() => {
    // What can't be measured is not let grow.
    measure().catch((error: Error) => tooLarge.abort(new SourceError('too_large', error.message)))
  }, MEASURE_MS)
  try {
    const signal = AbortSignal.any([options.signal, tooLarge.signal])
    const fetch = (...depth: readonly string[]) =>
      git(['--git-dir', folder, 'fetch', '--quiet', ...depth, '--no-tags', '--', repository, commit], {
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

/** Bytes of the objects that have come: packs, and from a plain web server single ones too. */
async function sizeOf(folder: string): Promise<number> {
  const objects = join(folder, 'objects')
  const names = await readdir(objects, { recursive: true }).catch(() => [])
  let bytes = 0
  for (const name of names) bytes += (await stat(join(objects, name)).catch(() => ({ size: 0 }))).size
  return bytes
}

/** The object id of a file in a commit. */
async function fileIn(folder: string, commit: string, path: string, options: GitOptions): Promise<string> {
  const ask = async (...args: string[]) => (await git(['--git-dir', folder, ...args], options)).toString().trim()
  const id = await ask('rev-parse', '--verify', '--quiet', '--end-of-options', `${commit}:${path}`).catch(
    (error: SourceError) => {
      throw error.code === 'git_failed' ? new SourceError('file_missing', `the commit has no file ${path}`) : error
    },
  )
  if ((await ask('cat-file', '-t', id)) !== 'blob')
    throw new SourceError('file_missing', `${path} is no file in the commit`)
  return id
}

type Ask<T> = (repository: string, options: GitOptions) => Promise<T>

/**
 * Gives a function that asks at a repository and, where that has moved, at the URL it redirects to. Git is not left to
 * follow: it takes credentials on to any host, and goes to addresses that nobody has checked.
 */
async function openRepository(location: GitLocation, authorization: string | undefined, signal: AbortSignal) {
  // As it was checked: of an odd URL git and curl may take another part for the host.
  let url = new URL(location.repository)
  const settings: (readonly [string, string])[] = [['http.followRedirects', 'false']]
  if (url.protocol === 'file:') settings.push(['protocol.file.allow', 'always'])
  if (authorization !== undefined) settings.push([`http.${url.origin}/.extraHeader`, `Authorization: ${authorization}`])
  if (location.publicOnly) settings.push(['http.curloptResolve', await addressOf(url, 'public')])
  const options = { settings, timeoutMs: POLL_MS, maxBytes: SMALL, signal }

  /** Goes on to where the repository redirects to; false where it does not, or where that is not followed. */
  async function follow(error: unknown): Promise<boolean> {
    if (!(error instanceof SourceError) || error.code !== 'moved' || location.publicOnly) return false
    const moved = await movedTo(url, authorization, signal)
    if (moved === undefined) return false
    if (moved.origin !== url.origin) settings.push(['http.curloptResolve', await addressOf(moved, 'reachable')])
    url = moved
    return true
  }

  return async function at<T>(ask: Ask<T>): Promise<T> {
    for (let hops = 0; ; hops++) {
      try {
        return await ask(url.href, options)
      } catch (error) {
        if (hops === REDIRECTS || !(await follow(error))) throw error
      }
    }
  }
}

async function authorizationOf({ auth }: GitLocation): Promise<string | undefined> {
  if (auth === undefined) return undefined
  const password = (await readSmallFile(auth.passwordFile, 'the password file')).trim()
  return `Basic ${Buffer.from(`${auth.username}:${password}`).toString('base64')}`
}

/** What git asks for first (gitprotocol-http). */
const REFS = '/info/refs?service=git-upload-pack'

/** Where a repository redirects to, as hosts do for one that was renamed; with credentials only within their origin. */
async function movedTo(url: URL, authorization: string | undefined, signal: AbortSignal): Promise<URL | undefined> {
  const asked = url.href.replace(/\/+$/, '') + REFS
  const { headers, body } = await request(asked, {
    headers: { 'git-protocol': 'version=2', 'user-agent': 'git/portico', ...(authorization && { authorization }) },
    signal: AbortSignal.any([signal, AbortSignal.timeout(POLL_MS)]),
  }).catch((error: Error & { code?: string }) => {
    throw new SourceError('unreachable', `it can’t be reached (${error.code ?? error.name})`)
  })
  await body.dump()
  const to = typeof headers['location'] === 'string' ? URL.parse(headers['location'], asked) : null
  if (to === null || !/^https?:$/.test(to.protocol) || !to.href.endsWith(REFS)) return undefined
  if (authorization !== undefined && to.origin !== url.origin) return undefined
  return new URL(to.href.slice(0, -REFS.length))
}
