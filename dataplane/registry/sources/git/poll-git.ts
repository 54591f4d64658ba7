import { hash } from 'node:crypto'
import { lookup } from 'node:dns/promises'
import { request } from 'undici'
import { classifyAddress } from '../../../config/check/address.ts'
import { boundedAgent } from '../../../net/bounded-agent.ts'
import { createBudget } from '../format/budget.ts'
import { readCatalog } from '../format/catalog-reader.ts'
import { openSpool, readSmallFile } from '../format/files.ts'
import type { LocationOf, Pass, ReadChange } from '../format/source.ts'
import { addCursor, SourceError, withCursor } from '../format/source-error.ts'
import { FETCH_MS, type Fetching, fetchCommit, fetchFile, type GitOptions, git } from './git-command.ts'

type GitLocation = LocationOf<'git'>

const POLL_MS = 30_000
/** The limit on all output of git except the file. */
const SMALL_BYTES = 1024 * 1024
const REDIRECTS = 5
/** A clone may have so many times the bytes of a source. */
const REPOSITORY_SHARE = 2
/** A pointer of Git LFS begins like this. Its content is stored elsewhere. */
const LFS_START = Buffer.from('version https://git-lfs.github.com/spec/')

const describeLfsPointer = (path: string) =>
  `${path} is a pointer of Git LFS, which is not followed: commit the file itself, or read it by a URL`

/**
 * Reads a file of a git repository over http or https, or of one on this machine (`file:`). It asks for the commit of
 * the ref, and fetches a new commit without its history, and without its files if the server can omit them. Sources of
 * one repository share a clone if they have the same credentials.
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
          if (piece.subarray(0, LFS_START.length).equals(LFS_START))
            throw new SourceError('file_missing', describeLfsPointer(location.path))
          return spool.write(piece)
        })
        return true
      })
      .catch((error: unknown) => {
        throw addCursor(error, `${commit} ${file}`)
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

/** The files of a commit. */
type Tree = ReturnType<typeof openTree>

function openTree({ folder, commit, read, signal }: TreeOptions) {
  const options = { timeoutMs: POLL_MS, maxBytes: SMALL_BYTES, signal }
  const list = async (...args: readonly string[]) => {
    const text = (await git(['--literal-pathspecs', '--git-dir', folder, 'ls-tree', '-z', ...args], options)).toString()
    return text.split('\0').slice(0, -1)
  }
  return {
    async entry(path: string): Promise<TreeEntry | undefined> {
      // A line has mode, type and id, then a tab and the path.
      const [mode, , id] = (await list(commit, '--', path))[0]?.split(/[ \t]/) ?? []
      return mode === undefined || id === undefined ? undefined : { kind: KINDS[mode.slice(0, 2)] ?? 'file', id }
    },
    /** Lists the names in a folder ('' is the root); undefined if there are too many. */
    async names(path: string) {
      return list('--name-only', `${commit}:${path}`).catch((error: SourceError) => {
        if (error.code !== 'too_large') throw error
        return undefined
      })
    },
    /** Reads the target of a link. */
    target: async (id: string) => (await read(id, options)).toString(),
  }
}

async function findCommit(repository: string, ref = 'HEAD', options: GitOptions): Promise<string> {
  const text = (await git(['ls-remote', '--', repository, ref, `${ref}^{}`], options)).toString()
  const found = new Map(text.split('\n').map((line) => line.split('\t').reverse() as [string, string]))
  // An annotated tag is an object of its own. Its commit is listed with the suffix `^{}`.
  const commit = found.get(`${ref}^{}`) ?? found.get(ref)
  if (commit === undefined) throw new SourceError('no_such_ref', `the repository has no ${ref}`)
  return commit
}

type Ask<T> = (repository: string, options: GitOptions) => Promise<T>

/**
 * Creates the function that runs requests to a repository, and follows its redirects. Git must not follow them itself,
 * since it sends credentials to any host and connects to any address.
 */
async function openRepository(location: GitLocation, authorization: string | undefined, signal: AbortSignal) {
  // Git gets the parsed URL: in an odd one, git and curl may take another part for the host.
  let url = new URL(location.repository)
  const settings: (readonly [string, string])[] = [['http.followRedirects', 'false']]
  if (url.protocol === 'file:') settings.push(['protocol.file.allow', 'always'])
  if (authorization !== undefined) settings.push([`http.${url.origin}/.extraHeader`, `Authorization: ${authorization}`])
  if (location.publicOnly) settings.push(['http.curloptResolve', await findAddress(url, 'public')])
  const options = { settings, timeoutMs: POLL_MS, maxBytes: SMALL_BYTES, signal }

  /** Follows a redirect of the repository; false if there is none, or if it is not allowed. */
  async function followRedirect(error: unknown): Promise<boolean> {
    if (!(error instanceof SourceError) || error.code !== 'moved' || location.publicOnly) return false
    const moved = await findRedirect(url, authorization, signal)
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
        if (hops === REDIRECTS || !(await followRedirect(error))) throw error
      }
    }
  }
}

async function readAuthorization({ auth }: GitLocation): Promise<string | undefined> {
  if (auth === undefined) return undefined
  const password = (await readSmallFile(auth.passwordFile, 'the password file')).trim()
  return `Basic ${Buffer.from(`${auth.username}:${password}`).toString('base64')}`
}

/** The path of git's first request (gitprotocol-http). */
const REFS = '/info/refs?service=git-upload-pack'

/** Finds where a repository redirects to. With credentials it may not lead to another origin. */
async function findRedirect(
  url: URL,
  authorization: string | undefined,
  signal: AbortSignal,
): Promise<URL | undefined> {
  const asked = url.href.replace(/\/+$/, '') + REFS
  const { headers, body } = await request(asked, {
    dispatcher: boundedAgent,
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
 * Resolves a host and returns its address in curl's form (`host:port:address`), so that git connects to the address
 * that was checked. Throws a SourceError if an address is not public; for `reachable`, if one is link-local or a
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

interface TreeEntry {
  readonly kind: 'file' | 'link' | 'folder' | 'submodule'
  /** The id of the object. That of a submodule is a commit of another repository. */
  readonly id: string
}

/** The most links on one path, as in Linux. */
const MOST_LINKS = 40

const foldCase = (name: string) => name.normalize('NFC').toLowerCase()

/** Finds the id of a file in a commit. Follows links within the repository. Throws a SourceError. */
async function findFile(path: string, tree: Tree): Promise<string> {
  const walk: Walk = { path, tree, ahead: splitPath(path), folders: [], link: undefined, links: 0 }
  for (let name = walk.ahead.shift(); name !== undefined; name = walk.ahead.shift()) {
    const found = name === '..' ? goUp(walk) : await enterName(walk, name)
    if (found !== undefined) return found
  }
  throw buildPathError(walk, `${walk.folders.join('/') || 'the path'} is a folder: name a file in it`)
}

interface Walk {
  readonly path: string
  readonly tree: Tree
  ahead: string[]
  readonly folders: string[]
  /** The last link, for error messages. */
  link: string | undefined
  links: number
}

const splitPath = (path: string) => path.split('/').filter((name) => name !== '' && name !== '.')

const buildPathError = ({ path, link }: Walk, message: string) =>
  new SourceError('file_missing', link === undefined ? message : `${path} leads over the link ${link}, and ${message}`)

function buildOutsideError({ path, link }: Walk): SourceError {
  const where = 'out of the repository, where nothing is read'
  const message =
    link === undefined
      ? `${path} leads ${where}`
      : `${path} leads over the link ${link} ${where}: commit the file itself in its place`
  return new SourceError('file_missing', message)
}

function goUp(walk: Walk): undefined {
  if (walk.folders.pop() === undefined) throw buildOutsideError(walk)
}

async function enterName(walk: Walk, name: string): Promise<string | undefined> {
  const at = [...walk.folders, name].join('/')
  const entry = name.includes('\0') ? undefined : await walk.tree.entry(at)
  if (entry === undefined) throw buildPathError(walk, await describeMissing(walk, name))
  switch (entry.kind) {
    case 'folder':
      walk.folders.push(name)
      return undefined
    case 'link':
      await followLink(walk, at, entry.id)
      return undefined
    case 'submodule':
      throw buildPathError(
        walk,
        `${at} is a submodule, whose files are in a repository of its own: name that one as repository, and the path in it`,
      )
    default:
      if (walk.ahead.length > 0) throw buildPathError(walk, `${at} is a file of the commit, no folder`)
      return entry.id
  }
}

async function followLink(walk: Walk, at: string, id: string): Promise<void> {
  if (++walk.links > MOST_LINKS)
    throw new SourceError('file_missing', `${walk.path} leads in a circle, over the link ${at}`)
  walk.link = at
  const target = await walk.tree.target(id)
  if (target.startsWith('/')) throw buildOutsideError(walk)
  walk.ahead = [...splitPath(target), ...walk.ahead]
}

async function describeMissing({ tree, folders, ahead }: Walk, name: string): Promise<string> {
  const before = folders.map((folder) => `${folder}/`).join('')
  const whole = `the commit has no file ${before}${[name, ...ahead].join('/')}`
  const said = ahead.length === 0 ? whole : `${whole}: there is no ${before}${name}`
  const names = await tree.names(folders.join('/'))
  const twin = names?.find((other) => foldCase(other) === foldCase(name))
  return twin === undefined ? said : `${said}, but ${twin}, whose name differs by case alone`
}
