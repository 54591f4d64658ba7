/** Connections of hostile callers, which send anything and read when they like. */
import { connect, type Socket } from 'node:net'
import { BASE_HEADERS } from '../../support/gateway/post.ts'

export interface Target {
  readonly port: number
  /** The caller's local address. */
  readonly address: string
}

/** Returns the head of a request as text, with `length` as the length of its body. */
export function buildHead(method: string, headers: Readonly<Record<string, string>>, length?: number): string {
  const lines = Object.entries({
    host: '127.0.0.1',
    ...headers,
    ...(length === undefined ? {} : { 'content-length': String(length) }),
  })
  return `${method} /mcp HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`
}

export interface Connection {
  readonly socket: Socket
  /** Resolves to the status of the first answer; undefined if the connection ended without one. */
  readonly status: Promise<number | undefined>
}

/**
 * Opens a connection and writes. Without `reads`, only the first answer's status line is read: the socket is paused once
 * `status` resolves, and may be resumed after that.
 */
export async function open(target: Target, pieces: readonly (string | Buffer)[], reads = false): Promise<Connection> {
  const socket = connect({ port: target.port, host: '127.0.0.1', localAddress: target.address })
  socket.on('error', () => {})
  const status = new Promise<number | undefined>((resolve) => {
    socket.once('data', (data) => {
      resolve(Number(data.toString('latin1').split(' ', 2)[1]))
      if (reads) socket.resume()
      else socket.pause()
    })
    socket.once('close', () => resolve(undefined))
  })
  await new Promise<void>((resolve) => {
    socket.once('connect', resolve)
    socket.once('close', resolve)
  })
  for (const piece of pieces) {
    if (socket.destroyed) break
    if (!socket.write(piece))
      await new Promise<void>((resolve) => {
        socket.once('drain', resolve)
        socket.once('close', resolve)
        // If the server stops reading, the attack continues on another connection.
        setTimeout(resolve, 300).unref()
      })
  }
  return { socket, status }
}

export const post = (target: Target, body: string, headers: Readonly<Record<string, string>>, reads = false) =>
  open(target, [buildHead('POST', { ...BASE_HEADERS, ...headers }, Buffer.byteLength(body)), body], reads)
