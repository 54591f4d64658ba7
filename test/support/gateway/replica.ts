import { type ChildProcess, spawn } from 'node:child_process'
import { eventually } from '../eventually.ts'
import { freePort } from '../network/free-port.ts'
import { porticoProgram } from '../portico-program.ts'

const [program, ...options] = porticoProgram

/** Runs `portico serve gateway` as a separate process that a test may kill. */
export class GatewayReplica {
  readonly #child: ChildProcess
  readonly port: number
  readonly adminPort: number
  errors = ''

  private constructor(configFile: string, port: number, adminPort: number) {
    this.port = port
    this.adminPort = adminPort
    const listen = ['--listen', `127.0.0.1:${port}`, '--admin-listen', `127.0.0.1:${adminPort}`]
    this.#child = spawn(program, [...options, 'serve', 'gateway', '--config', configFile, ...listen], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
      this.errors += chunk
    })
  }

  /** Starts a replica and waits until it is ready. If one of its ports is taken meanwhile, uses others. */
  static async start(configFile: string, tries = 3): Promise<GatewayReplica> {
    const replica = new GatewayReplica(configFile, await freePort(), await freePort())
    const isSettled = async () => !replica.running || (await replica.readiness()) === 200
    await eventually('the replica is ready', isSettled, 120_000)
    if (replica.running) return replica
    if (tries > 1 && replica.errors.includes(' is taken: ')) return GatewayReplica.start(configFile, tries - 1)
    throw new Error(`the replica has ended: ${replica.errors}`)
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/mcp`
  }

  /** Returns the HTTP status of the readiness probe; 0 if nobody answers. */
  async readiness(): Promise<number> {
    try {
      // Until the replica listens, another process that never answers may have its port.
      const signal = AbortSignal.timeout(5_000)
      return (await fetch(`http://127.0.0.1:${this.adminPort}/readyz`, { signal })).status
    } catch {
      return 0
    }
  }

  get memory(): Promise<number> {
    return import('node:fs/promises')
      .then(({ readFile }) => readFile(`/proc/${this.#child.pid}/statm`, 'utf8'))
      .then((text) => Number(text.split(' ')[1]) * 4096)
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Sends the signal and waits until the process has ended. */
  async end(signal: NodeJS.Signals = 'SIGKILL'): Promise<number | null> {
    if (this.running) this.#child.kill(signal)
    await eventually('the replica ends', () => !this.running)
    return this.#child.exitCode
  }
}
