import { spawn } from 'node:child_process'
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { tooManyBytes } from '../format/budget.ts'
import { type Clone, measureSize } from '../format/kept-clones.ts'
import { SourceError } from '../format/source-error.ts'

export interface GitOptions {
  /** Additional settings. They are passed by the environment, so that no list of processes shows them. */
  readonly settings?: readonly (readonly [string, string])[]
  readonly timeoutMs: number
  readonly maxBytes: number
  readonly signal: AbortSignal
  /** Receives the output in pieces; absent: the output is returned. */
  readonly take?: (piece: Buffer) => Promise<void>
}

const LONGEST_STDERR = 4096

/**
 * The most memory that git takes in one piece, in MiB. A few bytes in a pack can make an object of any size from another
 * one (gitformat-pack, deltified representation), and git holds such an object whole.
 */
const MOST_IN_ONE_PIECE = 128

const tooMuchOutput = (maxBytes: number) => new SourceError('too_large', `git printed more than ${maxBytes} bytes`)

/**
 * With these settings git uses no configuration of this machine, asks for no password, and uses http and https only.
 */
const SETTINGS: readonly (readonly [string, string])[] = [
  ['protocol.allow', 'never'],
  ['protocol.http.allow', 'always'],
  ['protocol.https.allow', 'always'],
  ['core.hooksPath', '/dev/null'],
  ['credential.helper', ''],
  ['http.lowSpeedLimit', '1'],
  ['http.lowSpeedTime', '30'],
  ['gc.auto', '0'],
  // These bound git's memory.
  ['core.bigFileThreshold', '1m'],
  ['core.deltaBaseCacheLimit', '16m'],
  ['core.packedGitWindowSize', '1m'],
  ['core.packedGitLimit', '32m'],
  ['pack.threads', '1'],
  // Fetched objects stay in packs, so that their size can be measured.
  ['fetch.unpackLimit', '1'],
]

/** The variables of git that are passed on: where its programs are, and which certificates it trusts. */
const KEPT = /^GIT_(EXEC_PATH|SSL_CAINFO|SSL_CAPATH|PROXY_SSL_CAINFO)$/

/** Runs git and returns its output. Throws a SourceError, which has no credentials since git's arguments have none. */
export async function git(args: readonly string[], options: GitOptions): Promise<Buffer> {
  const { timeoutMs, maxBytes, signal, take } = options
  signal.throwIfAborted()
  const child = spawn('git', args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    // In a group of its own, git can be killed together with the helpers that it starts.
    detached: true,
    env: buildEnvironment(options),
    // Git reads the settings of the repository that it starts in, and those of a checkout may hold its owner's tokens.
    cwd: '/',
  })
  let refused: Error | undefined
  const end = (reason: Error) => {
    refused ??= reason
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    } catch {
      // The process has ended already.
    }
  }
  const onAbort = () => end(signal.reason as Error)
  const timer = setTimeout(() => end(new SourceError('timed_out', `git did not end within ${timeoutMs} ms`)), timeoutMs)
  signal.addEventListener('abort', onAbort, { once: true })

  const chunks: Buffer[] = []
  const read = async () => {
    let size = 0
    for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > maxBytes) return end(take === undefined ? tooMuchOutput(maxBytes) : tooManyBytes(maxBytes))
      if (take === undefined) chunks.push(chunk)
      else await take(chunk)
    }
  }
  const reading = read().catch(end)
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(0, LONGEST_STDERR)
  })
  try {
    const { promise, resolve, reject } = Promise.withResolvers<number | null>()
    child.once('error', (error: NodeJS.ErrnoException) =>
      reject(new SourceError('git_failed', error.code === 'ENOENT' ? 'git is not installed' : error.message)),
    )
    child.once('close', resolve)
    const exitCode = await promise
    await reading
    if (refused !== undefined) throw refused
    if (exitCode !== 0) throw buildFailure(stderr, exitCode)
    return Buffer.concat(chunks)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
}

/** Builds the environment. It inherits what is needed to find git, certificates and proxies. */
function buildEnvironment({ settings = [] }: GitOptions): NodeJS.ProcessEnv {
  const all = [...SETTINGS, ...settings]
  return {
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_') || KEPT.test(name))),
    // Git and curl would read settings and passwords (.netrc) in a home directory.
    HOME: '/dev/null',
    NETRC: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
    // Without this, git fetches missing objects by itself.
    GIT_NO_LAZY_FETCH: '1',
    GIT_ASKPASS: '/bin/false',
    GIT_ALLOC_LIMIT: `${MOST_IN_ONE_PIECE}m`,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_COUNT: String(all.length),
    ...Object.fromEntries(
      all.flatMap(([key, value], index) => [
        [`GIT_CONFIG_KEY_${index}`, key],
        [`GIT_CONFIG_VALUE_${index}`, value],
      ]),
    ),
    LC_ALL: 'C',
  }
}

function buildFailure(stderr: string, exitCode: number | null): SourceError {
  const line = stderr.split('\n').findLast((text) => /^(fatal|error):/.test(text)) ?? `git ended with code ${exitCode}`
  const message = line.replace(/^(fatal|error): /, '').slice(0, 300)
  if (/attempting to allocate \d+ over limit/.test(stderr))
    return new SourceError('too_large', `git would need more than ${MOST_IN_ONE_PIECE} MiB for one object in it`)
  const owned = /dubious ownership in repository at '([^'\n]*)'/.exec(stderr)
  if (owned !== null)
    return new SourceError(
      'forbidden',
      `${owned[1]} belongs to another user than the one that this server runs as, so git does not read it: make that user its owner, or serve it over https`,
    )
  const absent = /repository '([^'\n]*)' not found|'([^'\n]*)' does not appear to be a git repository/.exec(stderr)
  if (absent !== null) return new SourceError('no_repository', describeMissing(absent))
  if (/not our ref|unadvertised object/.test(stderr))
    return new SourceError('no_such_ref', `the repository does not serve this commit: ${message}`)
  if (/Authentication failed|could not read Username|returned error: 40[13]/.test(stderr))
    return new SourceError('forbidden', `the repository refuses access: ${message}`)
  if (/returned error: 30\d/.test(stderr))
    return new SourceError('moved', 'it redirects to an address to which this source may not be redirected')
  // A plain web server (git's dumb protocol) only has whole packs.
  if (/dumb http transport does not support shallow/.test(stderr)) return new SourceError('no_shallow', message)
  if (/returned error: 429/.test(stderr)) return new SourceError('rate_limited', message)
  if (/Could not resolve|Failed to connect|Connection refused|timed out|unable to access|not found/i.test(stderr))
    return new SourceError('unreachable', message)
  return new SourceError('git_failed', message)
}

const describeMissing = ([, url, path]: RegExpExecArray): string =>
  url === undefined
    ? `there is no git repository at ${path}, or this server may not read it`
    : `there is no repository at ${url} (404): check its name; many hosts answer this if auth is missing or insufficient`

export const FETCH_MS = 5 * 60_000
const MEASURE_MS = 500
const SHA256_DIGITS = 64
/** Each fetch adds a pack. A clone with so many packs is fetched again, which drops what is no longer needed. */
const MOST_PACKS = 50

export interface Fetching {
  readonly clone: Clone
  readonly repository: string
  readonly maxBytes: number
  readonly options: GitOptions
}

const DEPTH = '--depth=1'
/**
 * These flags leave out files. The depth makes a plain web server refuse the fetch: without that, git would start
 * another git for each missing object of the partial clone, endlessly.
 */
const FILTERED = ['--filter=blob:none', DEPTH]

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
    // The objects of the clone may be the cause, if they are damaged or too large.
    if (!(error instanceof SourceError) || !/^(git_failed|too_large)$/.test(error.code)) throw error
    await fetchAnew(fetching, commit)
  }
}

/** Fetches a file into a clone that has its commit. */
export async function fetchFile(fetching: Fetching, commit: string, file: string): Promise<void> {
  const { clone, options } = fetching
  if (await hasObject(clone, file, options)) return
  try {
    // Otherwise the server assumes that we have all files of the commits that we have.
    await fetch(fetching, { flags: FILTERED, settings: [['fetch.negotiationAlgorithm', 'noop']], wanted: file })
  } catch (error) {
    if (!isFilterRefused(error)) throw error
    clone.isWhole = true
    await fetchAnew(fetching, commit)
  }
}

/** Tells whether an error shows that the server can't omit files or send a single one. */
const isFilterRefused = (error: unknown) =>
  error instanceof SourceError && /^(git_failed|no_shallow|no_such_ref)$/.test(error.code)

/** Fetches a commit into an empty clone. Its id tells the hash of the repository: ids of SHA-256 have 64 digits. */
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
  // The next fetch tells the server by these refs what we have.
  const wanted = `${commit}:refs/portico/${commit}`
  if (!clone.isWhole)
    return fetch(fetching, { flags: FILTERED, wanted }).catch((error: SourceError) => {
      if (!isFilterRefused(error)) throw error
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

interface FetchRequest {
  readonly flags: readonly string[]
  readonly settings?: GitOptions['settings']
  readonly wanted: string
}

async function fetch(
  { clone: { folder }, repository, maxBytes, options }: Fetching,
  { flags, settings = [], wanted }: FetchRequest,
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
      // The URL is not stored in the clone, since the repository may move.
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
