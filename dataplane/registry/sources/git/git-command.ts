import { spawn } from 'node:child_process'
import { tooManyBytes } from '../format/budget.ts'
import { SourceError } from '../format/source-error.ts'

export interface GitOptions {
  /** Additional settings, `key: value`. They are passed by the environment, so that no process list shows them. */
  readonly settings?: readonly (readonly [string, string])[]
  readonly timeoutMs: number
  readonly maxBytes: number
  readonly signal: AbortSignal
  /** Receives git's output piece by piece; absent: it is returned as a whole. */
  readonly take?: (piece: Buffer) => Promise<void>
}

const LONGEST_COMPLAINT = 4096

/**
 * The most memory that git takes in one piece, in MiB. A few bytes in a pack can make an object of any size from another
 * one (gitformat-pack, deltified representation), and git holds such an object whole.
 */
const MOST_IN_ONE_PIECE = 128

const tooTalkative = (maxBytes: number) => new SourceError('too_large', `git answers with more than ${maxBytes} bytes`)

/** No configuration of this machine applies, git asks nobody for a password, and only http and https are allowed. */
const SETTINGS: readonly (readonly [string, string])[] = [
  ['protocol.allow', 'never'],
  ['protocol.http.allow', 'always'],
  ['protocol.https.allow', 'always'],
  ['core.hooksPath', '/dev/null'],
  ['credential.helper', ''],
  ['http.lowSpeedLimit', '1'],
  ['http.lowSpeedTime', '30'],
  ['gc.auto', '0'],
  // Git streams large files, and its caches are bounded.
  ['core.bigFileThreshold', '1m'],
  ['core.deltaBaseCacheLimit', '16m'],
  ['core.packedGitWindowSize', '1m'],
  ['core.packedGitLimit', '32m'],
  ['pack.threads', '1'],
  // Fetched objects stay in packs, which makes their size measurable.
  ['fetch.unpackLimit', '1'],
]

/** These of git's own variables are kept: the location of its programs, and the certificates that it trusts. */
const KEPT = /^GIT_(EXEC_PATH|SSL_CAINFO|SSL_CAPATH|PROXY_SSL_CAINFO)$/

/** Runs git and returns its output. Throws a SourceError without credentials: git gets none in its arguments. */
export async function git(args: readonly string[], options: GitOptions): Promise<Buffer> {
  const { timeoutMs, maxBytes, signal, take } = options
  signal.throwIfAborted()
  const child = spawn('git', args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    // A process group of its own lets the helpers that git starts end with it.
    detached: true,
    env: environment(options),
    // Git reads the settings of the repository that it is started in, and a checkout's hold its owner's tokens.
    cwd: '/',
  })
  let refused: Error | undefined
  const end = (reason: Error) => {
    refused ??= reason
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    } catch {
      // The process has ended by itself.
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
      if (size > maxBytes) return end(take === undefined ? tooTalkative(maxBytes) : tooManyBytes(maxBytes))
      if (take === undefined) chunks.push(chunk)
      else await take(chunk)
    }
  }
  const reading = read().catch(end)
  let complaint = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(0, LONGEST_COMPLAINT)
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
    if (exitCode !== 0) throw buildFailure(complaint, exitCode)
    return Buffer.concat(chunks)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
}

/** Builds the environment. Inherited variables name git, the trusted certificates and the proxy. */
function environment({ settings = [] }: GitOptions): NodeJS.ProcessEnv {
  const all = [...SETTINGS, ...settings]
  return {
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_') || KEPT.test(name))),
    // Git and curl read settings and passwords (.netrc) there.
    HOME: '/dev/null',
    NETRC: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
    // Only an explicit fetch of ours fetches anything.
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

function buildFailure(complaint: string, exitCode: number | null): SourceError {
  const line =
    complaint.split('\n').findLast((text) => /^(fatal|error):/.test(text)) ?? `git ended with code ${exitCode}`
  const message = line.replace(/^(fatal|error): /, '').slice(0, 300)
  if (/attempting to allocate \d+ over limit/.test(complaint))
    return new SourceError('too_large', `git would need more than ${MOST_IN_ONE_PIECE} MiB for one object in it`)
  const owned = /dubious ownership in repository at '([^'\n]*)'/.exec(complaint)
  if (owned !== null)
    return new SourceError(
      'forbidden',
      `${owned[1]} belongs to another user than the one that this server runs as, so git does not read it: make that user its owner, or serve it over https`,
    )
  const absent = /repository '([^'\n]*)' not found|'([^'\n]*)' does not appear to be a git repository/.exec(complaint)
  if (absent !== null) return new SourceError('no_repository', noRepository(absent))
  if (/not our ref|unadvertised object/.test(complaint))
    return new SourceError('no_such_ref', `the repository does not serve this commit: ${message}`)
  if (/Authentication failed|could not read Username|returned error: 40[13]/.test(complaint))
    return new SourceError('forbidden', `the repository refuses access: ${message}`)
  if (/returned error: 30\d/.test(complaint))
    return new SourceError('moved', 'it redirects to an address to which this source may not be redirected')
  // The repository is a folder behind a plain web server, which only has whole packs.
  if (/dumb http transport does not support shallow/.test(complaint)) return new SourceError('no_shallow', message)
  if (/returned error: 429/.test(complaint)) return new SourceError('rate_limited', message)
  if (/Could not resolve|Failed to connect|Connection refused|timed out|unable to access|not found/i.test(complaint))
    return new SourceError('unreachable', message)
  return new SourceError('git_failed', message)
}

const noRepository = ([, url, path]: RegExpExecArray): string =>
  url === undefined
    ? `there is no git repository at ${path}, or this server may not read it`
    : `there is no repository at ${url} (404): check its name; many hosts answer this if auth is missing or insufficient`
