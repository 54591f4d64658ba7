import { spawn } from 'node:child_process'
import { tooManyBytes } from '../format/budget.ts'
import { SourceError } from '../format/source-error.ts'

export interface GitOptions {
  /** Settings beyond ours, `key: value`; they go by the environment, so that no process list shows them. */
  readonly settings?: readonly (readonly [string, string])[]
  readonly timeoutMs: number
  readonly maxBytes: number
  readonly signal: AbortSignal
  /** Takes what git writes piece by piece; absent: it is given as a whole. */
  readonly take?: (piece: Buffer) => Promise<void>
}

/** What git says beyond this is cut off. */
const LONGEST_COMPLAINT = 4096

const tooTalkative = (maxBytes: number) => new SourceError('too_large', `git answers with more than ${maxBytes} bytes`)

/** Nothing of this machine's configuration counts, nobody is asked for a password, only http and https are spoken. */
const SETTINGS: readonly (readonly [string, string])[] = [
  ['protocol.allow', 'never'],
  ['protocol.http.allow', 'always'],
  ['protocol.https.allow', 'always'],
  ['core.hooksPath', '/dev/null'],
  ['credential.helper', ''],
  ['http.lowSpeedLimit', '1'],
  ['http.lowSpeedTime', '30'],
  ['gc.auto', '0'],
  // What is large goes through git piece by piece, and what it keeps to be faster has a bound.
  ['core.bigFileThreshold', '1m'],
  ['core.deltaBaseCacheLimit', '16m'],
  ['core.packedGitWindowSize', '1m'],
  ['core.packedGitLimit', '32m'],
  ['pack.threads', '1'],
  // What is fetched lies in packs, where its size is measured.
  ['fetch.unpackLimit', '1'],
]

/** Of git's own variables these stay: where its programs are, and the certificates that it trusts. */
const KEPT = /^GIT_(EXEC_PATH|SSL_CAINFO|SSL_CAPATH|PROXY_SSL_CAINFO)$/

/** Runs git and gives what it wrote. Throws a SourceError; its message holds no credentials, since git gets none in its arguments. */
export async function git(args: readonly string[], options: GitOptions): Promise<Buffer> {
  const { timeoutMs, maxBytes, signal, take } = options
  signal.throwIfAborted()
  const child = spawn('git', args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own: the helpers that git starts end with it.
    detached: true,
    env: environment(options),
    // Git takes the settings of a repository that it is started in, a checkout's with its owner's tokens.
    cwd: '/',
  })
  let refused: Error | undefined
  const end = (reason: Error) => {
    refused ??= reason
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    } catch {
      // It has ended by itself.
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
    if (exitCode !== 0) throw failureOf(complaint, exitCode)
    return Buffer.concat(chunks)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
}

/** The rest of the environment says where git and the trusted certificates are, and which proxy to take. */
function environment({ settings = [] }: GitOptions): NodeJS.ProcessEnv {
  const all = [...SETTINGS, ...settings]
  return {
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_') || KEPT.test(name))),
    // Git and curl read settings and passwords (.netrc) there.
    HOME: '/dev/null',
    NETRC: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
    // Nothing is fetched but by a fetch of ours.
    GIT_NO_LAZY_FETCH: '1',
    GIT_ASKPASS: '/bin/false',
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

function failureOf(complaint: string, exitCode: number | null): SourceError {
  const line =
    complaint.split('\n').findLast((text) => /^(fatal|error):/.test(text)) ?? `git ended with code ${exitCode}`
  const message = line.replace(/^(fatal|error): /, '').slice(0, 300)
  const owned = /dubious ownership in repository at '([^'\n]*)'/.exec(complaint)
  if (owned !== null)
    return new SourceError(
      'forbidden',
      `${owned[1]} belongs to another user than the one that this server runs as, so git does not read it: make that user its owner, or serve it over https`,
    )
  const absent = /repository '([^'\n]*)' not found|'([^'\n]*)' does not appear to be a git repository/.exec(complaint)
  if (absent !== null) return new SourceError('no_repository', noRepository(absent))
  if (/not our ref|unadvertised object/.test(complaint))
    return new SourceError('no_such_ref', `the repository does not give this commit: ${message}`)
  if (/Authentication failed|could not read Username|returned error: 40[13]/.test(complaint))
    return new SourceError('forbidden', `the repository does not let us in: ${message}`)
  if (/returned error: 30\d/.test(complaint))
    return new SourceError('moved', 'it redirects to where this source is not followed')
  // A folder behind a plain web server: it has only whole packs to give.
  if (/dumb http transport does not support shallow/.test(complaint)) return new SourceError('no_shallow', message)
  if (/returned error: 429/.test(complaint)) return new SourceError('rate_limited', message)
  if (/Could not resolve|Failed to connect|Connection refused|timed out|unable to access|not found/i.test(complaint))
    return new SourceError('unreachable', message)
  return new SourceError('git_failed', message)
}

const noRepository = ([, url, path]: RegExpExecArray): string =>
  url === undefined
    ? `there is no git repository at ${path}, or this server may not read it`
    : `there is no repository at ${url} (404): its name may be another, and many hosts say so where auth is missing or does not reach it`
