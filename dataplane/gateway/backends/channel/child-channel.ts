import { type ChildProcess, spawn } from 'node:child_process'
import { resolve } from 'node:path'
import type { Logger } from 'pino'
import type { StdioConfig } from '../../../config/gateway.ts'
import { secretFile } from '../../../config/secret-file.ts'
import { BackendFailure } from '../connection/failure.ts'
import { checkUnread, LineSplitter, type OpenChannel, readSecrets, splitOutput } from './channel.ts'

/** The time from the end of its input to SIGTERM, and from SIGTERM to SIGKILL. */
const GRACE_MS = 500
const LONGEST_LOGGED = 2_000

interface ChildChannelOptions {
  readonly stdio: StdioConfig & { readonly command: readonly string[] }
  readonly directory: string
  readonly log: Logger
}

/**
 * Runs a server as a child process and speaks with it on its standard input and output. Its error output goes to the
 * log. The child leads a process group, so that the processes that it starts end with it.
 */
export function childChannel({ stdio, directory, log }: ChildChannelOptions): OpenChannel {
  const [file, ...args] = stdio.command as [string, ...string[]]
  const secrets = (stdio.envFiles ?? []).map(({ name, file }) => ({ name, read: secretFile(resolve(directory, file)) }))
  const readAll = () => Object.fromEntries(secrets.map(({ name, read }) => [name, read()]))

  return async function openChild(receiver) {
    const child = spawn(file, args, {
      cwd: stdio.cwd === undefined ? directory : resolve(directory, stdio.cwd),
      // The environment is passed on and not read: a program needs PATH and HOME.
      env: { ...process.env, ...stdio.env, ...readSecrets(readAll) },
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    await waitForStart(child)
    const { stdin, stdout, stderr } = child
    const lines = splitOutput(receiver, log)
    stdout.on('data', (chunk: Buffer) => lines.push(chunk))
    const errors = new LineSplitter(
      {
        line: (text) => log.info({ stderr: text.slice(0, LONGEST_LOGGED) }, 'the server says'),
        dropped: (start) => log.info({ stderr: start }, 'the server says'),
      },
      LONGEST_LOGGED * 8,
    )
    stderr.on('data', (chunk: Buffer) => errors.push(chunk))
    stdin.on('error', () => {
      // The server has exited, which its `close` event reports.
    })
    let timer: NodeJS.Timeout | undefined
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      signalGroup(child, 'SIGKILL')
      const end = signal === null ? `exited with code ${code}` : `was ended by ${signal}`
      receiver.closed(new BackendFailure('backend_unavailable', `the server ${end}`))
    })
    // A server that has exited has ended, even if grandchildren keep its output open.
    child.once('exit', () => {
      signalGroup(child, 'SIGKILL')
    })
    return {
      send(text) {
        if (!stdin.writable) throw new BackendFailure('backend_unavailable', 'the server has ended')
        checkUnread(stdin.writableLength)
        stdin.write(`${text}\n`)
      },
      close() {
        stdin.end()
        timer = setTimeout(() => {
          signalGroup(child, 'SIGTERM')
          timer = setTimeout(() => signalGroup(child, 'SIGKILL'), GRACE_MS)
        }, GRACE_MS)
      },
    }
  }
}

function waitForStart(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once('spawn', resolve)
    child.once('error', (cause) =>
      reject(new BackendFailure('backend_unavailable', `the server can’t be started: ${cause.message}`, { cause })),
    )
  })
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // The process group has ended.
  }
}
