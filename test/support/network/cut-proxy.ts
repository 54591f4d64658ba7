import { connect, createServer, type Socket } from 'node:net'

/** A TCP relay on loopback whose connections can be cut, frozen or refused: a network that fails. */
export interface CutProxy {
  readonly port: number
  /** Resets every connection there is; new ones are relayed. */
  cut(): void
  /** Relays nothing any more and says nothing about it, until `thaw`. */
  freeze(): void
  thaw(): void
  /** Refuses new connections and resets the old ones, until `thaw`. */
  refuse(): void
  close(): Promise<void>
}

/**
 * Resets a connection. One whose end is under way is destroyed instead: `resetAndDestroy` fails on it (EINVAL), Node takes
 * the handle for closing all the same, and at its exit waits for that without end.
 */
function reset(socket: Socket): void {
  if (socket.writableEnded) socket.destroy()
  else socket.resetAndDestroy()
}

export async function startCutProxy(target: { host: string; port: number }): Promise<CutProxy> {
  const pairs = new Set<readonly [Socket, Socket]>()
  let mode: 'relay' | 'frozen' | 'refusing' = 'relay'
  const server = createServer((inner) => {
    if (mode === 'refusing') return reset(inner)
    const outer = connect(target)
    const pair = [inner, outer] as const
    pairs.add(pair)
    const drop = () => {
      pairs.delete(pair)
      inner.destroy()
      outer.destroy()
    }
    for (const socket of pair) socket.on('error', drop).on('close', drop)
    inner.pipe(outer)
    outer.pipe(inner)
    if (mode === 'frozen') for (const socket of pair) socket.pause()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const cut = () => {
    for (const [inner, outer] of pairs) {
      reset(inner)
      outer.destroy()
    }
    pairs.clear()
  }
  return {
    port: typeof address === 'object' && address ? address.port : 0,
    cut,
    freeze() {
      mode = 'frozen'
      for (const pair of pairs) for (const socket of pair) socket.pause()
    },
    refuse() {
      mode = 'refusing'
      cut()
    },
    thaw() {
      mode = 'relay'
      for (const pair of pairs) for (const socket of pair) socket.resume()
    },
    close: () => {
      cut()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}
