import { hash } from 'node:crypto'
import { lookup } from 'node:dns/promises'
import { request } from 'undici'
import { classifyAddress } from '../../../config/check/address.ts'
import { createBudget } from '../format/budget.ts'
import { readSmallFile } from '../format/file-content.ts'
import { readCatalog } from '../format/parse.ts'
import type { LocationOf, Pass, ReadChange } from '../format/source.ts'
import { ofContent, SourceError, withCursor } from '../format/source-error.ts'
import { openSpool } from '../format/spool.ts'
import { FETCH_MS, type Fetching, fetchCommit, fetchFile } from './fetch.ts'
import { findFile, type Tree, type TreeEntry } from './find-file.ts'
import { type GitOptions, git } from './git-command.ts'

type GitLocation = LocationOf<'git'>

const POLL_MS = 30_000
/** The limit on git's output other than the file. */
const SMALL = 1024 * 1024
const REDIRECTS = 5
/** A repository is refused if one state of it needs more room than so many times the limit of a source. */
const REPOSITORY_SHARE = 2
/** The beginning of a git LFS pointer, a file whose content is stored elsewhere. */
const LFS = Buffer.from('version https://git-lfs.github.com/spec/')

const lfsPointer = (path: string) =>
  `${path} is a pointer of Git LFS, which is not followed: commit the file itself, or read it by a URL`

/**
 * Reads a file of a git repository over http or https, or of one on this machine (`file:`). It asks for the ref, and
 * fetches only a new commit, without history, and without files if the server can omit those. The sources of one
 * repository with the same credentials share a clone.
 */
export async function pollGit(location: GitLocation, pass: Pass): Promise<ReadChange | undefined> {
  const authorization = await readAuthorization(location)
  const at = await openRepository(location, authorization, pass.signal)
  const key = hash('sha256', JSON.stringify([location.repository, authorization, location.publicOnly]), 'base64url')
  const [commitBefore, fileBefore] = pass.cursor?.split(' ') ?? []
  const commit = location.commit ?? (await at((repository, options) => findCommit(repository, location.ref, options)))
  if (commit === commitBefore) {
    pass.clones.touch(key)
    return undefined
  }

  return async function readCommit() {
    const maxBytes = pass.maxBytes * REPOSITORY_SHARE
    let file = ''
    const spool = await openSpool(pass)
    const isAnother = await pass.clones
      .use({ key, maxBytes, signal: pass.signal }, async (clone) => {
        const fetching = (use: (fetching: Fetching) => Promise<void>) =>
          at((repository, options) => use({ clone, repository, maxBytes, options }))
        await fetching((given) => fetchCommit(given, commit))
        const read: ReadFile = async (id, options, take) => {
          await fetching((given) => fetchFile(given, commit, id))
          return git(['--git-dir', clone.folder, 'cat-file', 'blob', id], { ...options, ...(take && { take }) })
        }
        file = await findFile(location.path, openTree({ folder: clone.folder, commit, read, signal: pass.signal }))
        if (file === fileBefore) return false
        await read(file, { timeoutMs: FETCH_MS, maxBytes: pass.maxBytes, signal: pass.signal }, (piece) => {
          if (piece.subarray(0, LFS.length).equals(LFS))
            throw new SourceError('file_missing', lfsPointer(location.path))
          return spool.write(piece)
        })
        return true
      })
      .catch((error: unknown) => {
        throw ofContent(error, `${commit} ${file}`)
      })
    const cursor = `${commit} ${file}`
    if (!isAnother) return { newCursor: cursor }
    const batches = readCatalog(spool.read(), createBudget(pass.maxBytes))
    return { complete: true, batches: withCursor(batches, cursor), cursor: () => cursor }
  }
}

type ReadFile = (id: string, options: GitOptions, take?: (piece: Buffer) => Promise<void>) => Promise<Buffer>

interface TreeOptions {
  readonly folder: string
  readonly commit: string
  readonly read: ReadFile
  readonly signal: AbortSignal
}

const KINDS: Readonly<Record<string, TreeEntry['kind']>> = { '12': 'link', '16': 'submodule', '04': 'folder' }

function openTree({ folder, commit, read, signal }: TreeOptions): Tree {
  const options = { timeoutMs: POLL_MS, maxBytes: SMALL, signal }
  const list = async (...args: readonly string[]) => {
    const text = (await git(['--literal-pathspecs', '--git-dir', folder, 'ls-tree', '-z', ...args], options)).toString()
    return text.split('\0').slice(0, -1)
  }
  return {
    async entry(path) {
      // The format is mode, type and id, then a tab and the path.
      const [mode, , id] = (await list(commit, '--', path))[0]?.split(/[ \t]/) ?? []
      return mode === undefined || id === undefined ? undefined : { kind: KINDS[mode.slice(0, 2)] ?? 'file', id }
    },
    async names(path) {
      return list('--name-only', `${commit}:${path}`).catch((error: SourceError) => {
        if (error.code !== 'too_large') throw error
        return undefined
      })
    },
    target: async (id) => (await read(id, options)).toString(),
  }
}

async function findCommit(repository: string, ref = 'HEAD', options: GitOptions): Promise<string> {
  const text = (await git(['ls-remote', '--', repository, ref, `${ref}^{}`], options)).toString()
  const found = new Map(text.split('\n').map((line) => line.split('\t').reverse() as [string, string]))
  // An annotated tag is an object of its own; the name of its target has the suffix `^{}`.
  const commit = found.get(`${ref}^{}`) ?? found.get(ref)
  if (commit === undefined) throw new SourceError('no_such_ref', `the repository has no ${ref}`)
  return commit
}

type Ask<T> = (repository: string, options: GitOptions) => Promise<T>

/**
 * Returns a function that asks at a repository, and at its redirect target. Git must not follow redirects itself: it
 * sends credentials to any host, and goes to unchecked addresses.
 */
async function openRepository(location: GitLocation, authorization: string | undefined, signal: AbortSignal) {
  // The URL is passed on as checked: git and curl may take another part of an odd URL for the host.
  let url = new URL(location.repository)
  const settings: (readonly [string, string])[] = [['http.followRedirects', 'false']]
  if (url.protocol === 'file:') settings.push(['protocol.file.allow', 'always'])
  if (authorization !== undefined) settings.push([`http.${url.origin}/.extraHeader`, `Authorization: ${authorization}`])
  if (location.publicOnly) settings.push(['http.curloptResolve', await findAddress(url, 'public')])
  const options = { settings, timeoutMs: POLL_MS, maxBytes: SMALL, signal }

  /** Follows a redirect of the repository; false if there is none, or if it is not allowed. */
  async function follow(error: unknown): Promise<boolean> {
    if (!(error instanceof SourceError) || error.code !== 'moved' || location.publicOnly) return false
    const moved = await movedTo(url, authorization, signal)
    if (moved === undefined) return false
    if (moved.origin !== url.origin) settings.push(['http.curloptResolve', await findAddress(moved, 'reachable')])
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

async function readAuthorization({ auth }: GitLocation): Promise<string | undefined> {
  if (auth === undefined) return undefined
  const password = (await readSmallFile(auth.passwordFile, 'the password file')).trim()
  return `Basic ${Buffer.from(`${auth.username}:${password}`).toString('base64')}`
}

/** The first request of git (gitprotocol-http). */
const REFS = '/info/refs?service=git-upload-pack'

/** Returns the redirect target of a repository; with credentials only within their origin. */
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

/**
 * Returns a checked address in curl's form (`host:port:address`), so that git calls it even if the name resolves to
 * another one later. Throws a SourceError for an address that is not public or, for `reachable`, is link-local or a
 * metadata service.
 */
export async function findAddress({ hostname, port, protocol }: URL, wanted: 'public' | 'reachable'): Promise<string> {
  const host = hostname.replace(/^\[|\]$/g, '')
  const addresses = await lookup(host, { all: true }).catch((error: NodeJS.ErrnoException) => {
    throw new SourceError('unreachable', `${host} can’t be resolved (${error.code})`)
  })
  const [first] = addresses
  const isRefused = wanted === 'public' ? (found: string) => found !== 'public' : (found: string) => found === 'never'
  if (first === undefined || addresses.some(({ address }) => isRefused(classifyAddress(address))))
    throw new SourceError('private_address', 'it is at, or leads to, an address that this source may not reach')
  const bracketed = first.family === 6 ? `[${first.address}]` : first.address
  return `${host}:${port || (protocol === 'https:' ? 443 : 80)}:${bracketed}`
}
