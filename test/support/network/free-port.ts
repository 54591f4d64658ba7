import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * The range is below the ephemeral ports (from 32768 on by default), so that the system gives none of these ports to
 * outgoing connections or to servers on port 0, between choice and use or while a server restarts.
 */
const [FIRST, END] = [10_000, 30_000]
/** The only port of the range that `fetch` blocks (https://fetch.spec.whatwg.org/#port-blocking). */
const BLOCKED = 10_080

/**
 * Returns a free TCP port on loopback. No other test takes it while this process lives, because a UDP socket with the
 * same number, which disturbs nobody, reserves it.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, END)
    if (port !== BLOCKED && (await isReserved(port)) && (await isFree(port))) return port
  }
}

async function isReserved(port: number): Promise<boolean> {
  const socket = createSocket('udp4').unref()
  socket.bind({ port, address: '127.0.0.1', exclusive: true })
  return waitForEvent(socket, 'listening')
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  server.listen(port, '127.0.0.1')
  if (!(await waitForEvent(server, 'listening'))) return false
  server.close()
  await once(server, 'close')
  return true
}

/** Tells whether it could reserve its port. Throws for errors other than that the port is taken. */
function waitForEvent(one: NodeJS.EventEmitter, event: string): Promise<boolean> {
  return once(one, event).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') return false
      throw error
    },
  )
}
