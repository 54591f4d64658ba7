import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import type { Io } from '../command.ts'

/** Starts kubectl, whose plugin this is; it ends with this process. */
export function startKubectl(args: readonly string[], io: Io, stdio: StdioOptions): ChildProcess {
  return spawn('kubectl', args, { stdio, env: io.env as NodeJS.ProcessEnv, signal: io.stop })
}

/** Returns the exit code of a started kubectl. Throws if it can't be started. */
export async function awaitExit(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', (error) => {
      if (error.name === 'AbortError') resolve(0)
      else reject(new Error(`kubectl can’t be started: ${error.message}`))
    })
    child.once('close', (code) => resolve(code ?? 1))
  })
}
