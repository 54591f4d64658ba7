import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'

export interface RedisServer {
  readonly port: number
  /** `127.0.0.1:PORT` */
  readonly address: string
  /** Ends the server at once; a second call does nothing. */
  stop(): Promise<void>
  /** Suspends the server, or resumes it. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void
}

export interface RedisServerOptions {
  /** Port of an earlier server that this one replaces. */
  readonly port?: number
  /** Lines of its configuration. */
  readonly settings?: readonly string[]
  readonly sentinel?: boolean
}

/** Starts a real Redis on loopback, without persistence. Fails with a hint if the command isn’t installed. */
export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const port = options.port ?? (await freePort())
  const directory = await mkdtemp(join(tmpdir(), 'portico-redis-'))
  const file = join(directory, 'redis.conf')
  const persistence = options.sentinel ? [] : ['save ""', 'appendonly no']
  // A later setting wins, such as `port 0` of a server that only speaks TLS.
  const lines = ['bind 127.0.0.1', `port ${port}`, `dir ${directory}`, ...persistence, ...(options.settings ?? [])]
  await writeFile(file, `${lines.join('\n')}\n`)
  const child = spawn('redis-server', [file, ...(options.sentinel ? ['--sentinel'] : [])], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await waitUntilReady(child)
  return {
    port,
    address: `127.0.0.1:${port}`,
    signal: (signal) => void child.kill(signal),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
      await rm(directory, { recursive: true, force: true })
    },
  }
}

function waitUntilReady(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let output = ''
    child.once('error', () =>
      reject(new Error('redis-server is not installed; the tests need it: apt-get install -y redis-server')),
    )
    child.once('exit', (code) => reject(new Error(`redis-server ended with ${code}:\n${output}`)))
    child.stdout?.on('data', (chunk) => {
      output += chunk
      if (/Ready to accept connections|Sentinel ID is/.test(output)) resolve()
    })
  })
}
