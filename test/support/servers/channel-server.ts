import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import { endFileOnError } from '../or-fail.ts'

/** A request, notification or answer of the gateway. */
export type ChannelMessage = {
  readonly id?: unknown
  readonly method?: string
  readonly params?: Record<string, unknown>
  readonly error?: { readonly code: number }
}

/** A server on a two-way channel whose every message a test writes. */
export interface ChannelServer {
  readonly transport: BackendConfig['transport']
  readonly config: Pick<BackendConfig, 'transport' | 'url' | 'stdio'>
  readonly messages: ChannelMessage[]
  /** Sends a text byte for byte on every channel on which the gateway listens. */
  say(text: string): void
  /** Ends all channels. */
  cut(): void
  close(): Promise<void>
}

/** Handles a message; `say` writes to the channel on which it arrived. */
export type Take = (message: ChannelMessage, say: (text: string) => void) => void

/** A program that relays its input and output to a loopback port. It has no types, because stripping them takes long. */
const PASS_ON = `
const socket = require('node:net').connect(Number(process.argv[1]), '127.0.0.1')
process.stdin.pipe(socket)
socket.pipe(process.stdout)
socket.on('error', () => process.exit(1))
socket.on('close', () => process.exit(0))
`

/** A server on standard input and output: a child that relays both to this process. */
export async function startStdioServer(take: Take): Promise<ChannelServer> {
  const messages: ChannelMessage[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    createInterface({ input: socket }).on('line', (line) => {
      const message = JSON.parse(line) as ChannelMessage
      messages.push(message)
      take(message, (text) => void socket.write(`${text}\n`))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    transport: 'stdio',
    config: { transport: 'stdio', stdio: { command: [process.execPath, '--eval', PASS_ON, String(port)] } },
    messages,
    say: (text) => {
      for (const socket of sockets) socket.write(`${text}\n`)
    },
    cut: () => {
      for (const socket of sockets) socket.destroy()
    },
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** A server of 2024-11-05 (HTTP+SSE): each session has a stream, on which posted messages are answered. */
export async function startSseChannel(take: Take): Promise<ChannelServer> {
  const messages: ChannelMessage[] = []
  const streams = new Map<string, ServerResponse>()
  const sayOn = (stream: ServerResponse | undefined) => (text: string) =>
    void stream?.write(`event: message\ndata: ${text}\n\n`)
  const server = createHttpServer(
    endFileOnError(async (req: IncomingMessage, res: ServerResponse) => {
      if (req.method === 'GET') {
        const name = `/messages/${streams.size}-${Math.random()}`
        streams.set(name, res)
        res.once('close', () => streams.delete(name))
        res.writeHead(200, { 'content-type': 'text/event-stream' }).write(`event: endpoint\ndata: ${name}\n\n`)
        return
      }
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk as Buffer)
      const stream = streams.get(req.url ?? '')
      res.writeHead(stream === undefined ? 404 : 202).end()
      if (stream === undefined) return
      const message = JSON.parse(Buffer.concat(chunks).toString()) as ChannelMessage
      messages.push(message)
      take(message, sayOn(stream))
    }),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    transport: 'sse',
    config: { transport: 'sse', url: `http://127.0.0.1:${port}/sse` },
    messages,
    say: (text) => {
      for (const stream of streams.values()) sayOn(stream)(text)
    },
    cut: () => {
      for (const stream of streams.values()) stream.destroy()
    },
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
