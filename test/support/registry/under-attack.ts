/** Runs a registry as a separate process with a rendered pod's flags and heap, and measures its memory. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import * as assert from 'uvu/assert'
import { NODE_FLAGS } from '../../../build/node-flags.ts'
import { eventually } from '../eventually.ts'
import { type RegistryFolder, registryFolder, type Status, server } from './registry.ts'
import { startRegistryProcess } from './registry-process.ts'

/** Node's default old generation in a container of 512 MiB, the rendered limit. */
const HEAP_MIB = 256
/** The memory limit that the operator renders for a registry's container. */
export const LIMIT_MIB = 512

export interface AttackedRegistry {
  readonly url: string
  readonly port: number
  /** Highest resident set size since the start. */
  peakMib(): number
  /** Returns the sync state of its sources. */
  states(): Promise<Status['sources']>
  /** Waits until another client can read and publish, and sees what it published. */
  serves(): Promise<void>
  /** Opens a connection and sends a request; reads only the status of the first answer. */
  open(text: string): Promise<OpenConnection>
  close(): Promise<void>
}

export interface OpenConnection {
  readonly socket: Socket
  /** Status of the first answer; undefined if the connection ended without one. */
  readonly status: Promise<number | undefined>
}

/** `sources` are added to a managed one, `own`; the registry `main` is over all of them. */
export async function startAttackedRegistry(
  sources: readonly { readonly name: string }[],
  prepare: (folder: RegistryFolder) => Promise<void> = async () => {},
): Promise<AttackedRegistry> {
  const folder = await registryFolder()
  await prepare(folder)
  const names = ['own', ...sources.map(({ name }) => name)]
  await folder.configure({
    sources: [{ name: 'own', managed: {} }, ...sources],
    registries: [{ name: 'main', sources: names }],
    auth: { mode: 'anonymous' },
  })
  const flags = [...NODE_FLAGS, `--max-old-space-size=${HEAP_MIB}`]
  const { child, url, adminUrl } = await startRegistryProcess(folder, flags)
  const port = Number(new URL(url).port)
  const sockets: Socket[] = []
  let published = 0

  async function isServed(): Promise<boolean> {
    const name = `own/n${published++}`
    const written = await fetch(`${url}/v1/entries`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ source: 'own', server: server(name) }),
    })
    await written.arrayBuffer()
    if (written.status !== 201) return false
    const read = await fetch(`${url}/registry/main/v0.1/servers/${encodeURIComponent(name)}/versions/latest`)
    await read.arrayBuffer()
    return read.status === 200
  }

  return {
    url,
    port,
    peakMib: () => Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024,
    states: async () => ((await (await fetch(`${adminUrl}/status`)).json()) as Status).sources,
    serves: () => eventually('another client is served', () => isServed().catch(() => false), 60_000),
    async open(text) {
      const socket = connect({ port, host: '127.0.0.1' })
      sockets.push(socket)
      socket.on('error', () => {})
      const status = new Promise<number | undefined>((resolve) => {
        socket.once('data', (data) => {
          socket.pause()
          resolve(Number(data.toString('latin1').split(' ', 2)[1]))
        })
        socket.once('close', () => resolve(undefined))
      })
      await Promise.race([once(socket, 'connect'), once(socket, 'close')])
      socket.write(text)
      return { socket, status }
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined
      child.kill('SIGKILL')
      await ended
      await folder.remove()
    },
  }
}

/** Asserts that the process lives, serves others, and used no more memory than its container has. */
export async function assertHolds(registry: AttackedRegistry, what: string): Promise<void> {
  await registry.serves()
  const peak = registry.peakMib()
  console.log(`${what}: ${peak.toFixed(0)} MiB`)
  assert.ok(peak < LIMIT_MIB, `${what}: ${peak.toFixed(0)} MiB`)
}
