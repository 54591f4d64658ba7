import { type ChildProcess, fork } from 'node:child_process'
import { NODE_FLAGS } from '../../build/node-flags.ts'

export interface Part {
  readonly child: ChildProcess
  readonly pid: number
  readonly origin: string
}

export interface PartReport {
  readonly calls?: number
}

const running: ChildProcess[] = []

/** Starts a script that sends its port. Rejects if it ends instead. */
export async function start(script: URL, ...args: string[]): Promise<Part> {
  const child = fork(script, args, { stdio: 'inherit', execArgv: [...NODE_FLAGS] })
  running.push(child)
  const { port } = await new Promise<{ readonly port: number }>((resolve, reject) => {
    child.once('message', (message) => resolve(message as { port: number }))
    child.once('exit', () => reject(new Error(`${script.pathname} did not start`)))
  })
  return { child, pid: child.pid as number, origin: `http://127.0.0.1:${port}` }
}

export function tell({ child }: Part): Promise<PartReport> {
  return new Promise((resolve) => {
    child.once('message', (message) => resolve(message as PartReport))
    child.send('tell')
  })
}

export function endParts(): void {
  for (const child of running) if (child.connected) child.disconnect()
}
