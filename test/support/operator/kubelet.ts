import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { eventually } from '../eventually.ts'

export interface Kubelet {
  readonly url: string
  /** The attach requests so far, as paths with their queries. */
  readonly attached: string[]
  /** Number of the container's starts. */
  readonly starts: number
  /** The required Authorization header. */
  token: string
  /** Cuts the connection, like a node that fails. */
  cut(): void
  close(): Promise<void>
}

/**
 * Acts as an API server and a kubelet for `pods/attach` over WebSocket (`v5.channel.k8s.io`), with a process as the
 * container. As with `stdinOnce`, the process's input ends with the connection. The process is restarted when it exits.
 */
export async function startKubelet(command: readonly [string, ...string[]]): Promise<Kubelet> {
  const attached: string[] = []
  let starts = 0
  let container = start()
  let socket: Socket | undefined
  let closed = false
  let token = 'first'

  function start(): ChildProcess {
    starts++
    const [file, ...args] = command
    const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'ignore'] })
    child.stdin?.on('error', () => {})
    child.once('exit', () => {
      socket?.destroy()
      if (!closed) container = start()
    })
    return child
  }

  const isAllowed = ({ headers }: IncomingMessage) => headers.authorization === `Bearer ${token}`
  const server = createServer((req, res) => {
    const [code, message] = isAllowed(req) ? [400, 'Upgrade request required'] : [403, 'cannot create pods/attach']
    res.writeHead(code).end(JSON.stringify({ kind: 'Status', status: 'Failure', message }))
  })
  server.on('upgrade', (req, upgraded: Socket) => {
    if (!isAllowed(req)) {
      upgraded.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n')
      return
    }
    attached.push(req.url ?? '')
    socket?.destroy()
    socket = upgraded
    const accept = createHash('sha1')
      .update(`${req.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest('base64')
    upgraded.write(
      `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ${accept}\r\nsec-websocket-protocol: v5.channel.k8s.io\r\n\r\n`,
    )
    const child = container
    const onOutput = (chunk: Buffer) => upgraded.write(buildFrame(Buffer.concat([Buffer.from([1]), chunk])))
    child.stdout?.on('data', onOutput)
    let rest = Buffer.alloc(0)
    upgraded.on('data', (chunk) => {
      rest = Buffer.concat([rest, chunk])
      for (let frame = readFrame(rest); frame !== undefined; frame = readFrame(rest)) {
        rest = rest.subarray(frame.size)
        if (frame.opcode === 2 && frame.payload[0] === 0) child.stdin?.write(frame.payload.subarray(1))
        if (frame.opcode === 8) upgraded.end()
      }
    })
    upgraded.on('error', () => {})
    upgraded.on('close', () => {
      child.stdout?.off('data', onOutput)
      child.stdin?.end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    attached,
    get starts() {
      return starts
    },
    get token() {
      return token
    },
    set token(next) {
      token = next
    },
    cut: () => socket?.destroy(),
    async close() {
      closed = true
      container.kill('SIGKILL')
      await eventually('the container to end', () => container.exitCode !== null || container.signalCode !== null)
      socket?.destroy()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** A whole unmasked binary frame (RFC 6455, section 5.2). */
function buildFrame(payload: Buffer): Buffer {
  const head = Buffer.alloc(10)
  head[0] = 0x82
  head[1] = 127
  head.writeBigUInt64BE(BigInt(payload.length), 2)
  return Buffer.concat([head, payload])
}

function readFrame(bytes: Buffer): { opcode: number; payload: Buffer; size: number } | undefined {
  if (bytes.length < 2) return undefined
  const short = (bytes[1] as number) & 0x7f
  const extra = short === 126 ? 2 : short === 127 ? 8 : 0
  const start = 2 + extra + 4
  if (bytes.length < start) return undefined
  const length = extra === 0 ? short : extra === 2 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2))
  if (bytes.length < start + length) return undefined
  const mask = bytes.subarray(start - 4, start)
  const payload = Buffer.from(bytes.subarray(start, start + length))
  for (let at = 0; at < length; at++) payload[at] = (payload[at] as number) ^ (mask[at % 4] as number)
  return { opcode: (bytes[0] as number) & 0x0f, payload, size: start + length }
}
