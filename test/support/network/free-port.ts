import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Below those that the system hands out by itself (from 32768 on by default), to outgoing connections and to who listens
 * at port 0: nobody gets one of these between its choice and its use, nor while a server that is to come back is away.
 */
const [FIRST, END] = [10_000, 30_000]
/** `fetch` refuses to ask at this port, the only one of ours that it blocks (https://fetch.spec.whatwg.org/#port-blocking). */
const BLOCKED = 10_080

/**
 * A TCP port on loopback that is free, and that no other test takes for as long as this process lives: its number is held
 * as a UDP port, which is in nobody's way.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, END)
    if (port !== BLOCKED && (await isHeld(port)) && (await isFree(port))) return port
  }
}

async function isHeld(port: number): Promise<boolean> {
  const socket = createSocket('udp4').unref()
  socket.bind({ port, address: '127.0.0.1', exclusive: true })
  return came(socket, 'listening')
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  server.listen(port, '127.0.0.1')
  if (!(await came(server, 'listening'))) return false
  server.close()
  await once(server, 'close')
  return true
}

/** Whether it takes its port; throws where it can't for another reason than that it is taken. */
function came(one: NodeJS.EventEmitter, event: string): Promise<boolean> {
  return once(one, event).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') return false
      throw error
    },
  )
}
