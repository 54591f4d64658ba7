import { type ChildProcess, fork } from 'node:child_process'
import { NODE_FLAGS } from '../../image/node-flags.ts'

/** A process of the set-up. */
export interface Part {
  readonly child: ChildProcess
  readonly origin: string
  /** Of each of its listeners, where it has several. */
  readonly origins: readonly string[]
  /** Of its admin listener, where it has one. */
  readonly adminOrigin?: string | undefined
}

/** What a part tells of itself. */
export interface Told {
  /** Processor time in microseconds. */
  readonly cpu: { readonly user: number; readonly system: number }
  /** Calls that reached it, where it is a backend. */
  readonly calls?: number
}

const running: ChildProcess[] = []

/** What a part says of itself when it has started. */
interface Started {
  readonly port: number
  /** Of several listeners, that one among them. */
  readonly ports?: readonly number[]
  readonly adminOrigin?: string
}

/** Starts a script that sends its port. Rejects where it ends instead. */
export async function start(script: URL, ...args: string[]): Promise<Part> {
  const child = fork(script, args, { stdio: 'inherit', execArgv: [...NODE_FLAGS] })
  running.push(child)
  const {
    port,
    ports = [port],
    adminOrigin,
  } = await new Promise<Started>((resolve, reject) => {
    child.once('message', (message) => resolve(message as Started))
    child.once('exit', () => reject(new Error(`${script.pathname} did not start`)))
  })
  const originOf = (port: number) => `http://127.0.0.1:${port}`
  return { child, origin: originOf(port), origins: ports.map(originOf), adminOrigin }
}

/** What a part has used by now. */
export function tell({ child }: Part): Promise<Told> {
  return new Promise((resolve) => {
    child.once('message', (message) => resolve(message as Told))
    child.send('tell')
  })
}

export const cpuSeconds = ({ cpu }: Told): number => (cpu.user + cpu.system) / 1e6

/** Ends every part that still runs. */
export function endParts(): void {
  for (const child of running) if (child.connected) child.disconnect()
}
