import { connect, createServer, type Socket } from 'node:net'
import { createServer as createTlsServer, type TlsOptions } from 'node:tls'

/** A load balancer with one address for several ports; new connections go to the chosen ones. */
export interface TcpFront {
  readonly port: number
  /** The ports for new connections, which they use in turn. Old connections stay. */
  choose(...ports: number[]): void
  /** Number of connections to a port so far. */
  connections(port: number): number
  /** Number of open connections to a port. */
  open(port: number): number
  close(): Promise<void>
}

/** @param tls terminates the clients' TLS */
export async function startTcpFront(first: number, tls?: TlsOptions): Promise<TcpFront> {
  let chosen = [first]
  const sent: number[] = []
  const open: number[] = []
  const sockets = new Set<Socket>()
  function forward(inner: Socket): void {
    const port = chosen[sent.length % chosen.length] as number
    sent.push(port)
    open.push(port)
    inner.once('close', () => open.splice(open.indexOf(port), 1))
    const outer = connect(port, '127.0.0.1')
    for (const socket of [inner, outer]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        inner.destroy()
        outer.destroy()
      })
    }
    inner.pipe(outer)
    outer.pipe(inner)
  }
  const server = tls === undefined ? createServer(forward) : createTlsServer(tls, forward)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    choose(...ports) {
      chosen = ports
    },
    connections: (port) => sent.filter((one) => one === port).length,
    open: (port) => open.filter((one) => one === port).length,
    close() {
      for (const socket of sockets) socket.destroy()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}
