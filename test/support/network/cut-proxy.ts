import { connect, createServer, type Socket } from 'node:net'

/** A TCP relay on loopback that simulates a failing network: it cuts, freezes or refuses connections. */
export interface CutProxy {
  readonly port: number
  /** Resets all open connections; new ones are relayed. */
  cut(): void
  /** Stops relaying without closing anything, until `thaw`. */
  freeze(): void
  thaw(): void
  /** Refuses new connections and resets the old ones, until `thaw`. */
  refuse(): void
  close(): Promise<void>
}

/**
 * Resets a connection, or destroys it if one of its ends is closing. For such a connection `resetAndDestroy` fails
 * (EINVAL), but Node believes that the handle is closing and waits for it forever at exit.
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
