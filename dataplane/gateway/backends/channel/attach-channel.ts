import { resolve } from 'node:path'
import type { Logger } from 'pino'
import { type Dispatcher, request, type WebSocket } from 'undici'
import { API_SERVER } from '../../../../crds/settings/gateway/defaults.ts'
import type { StdioConfig } from '../../../config/gateway.ts'
import { secretFile } from '../../../config/secret-file.ts'
import { createDispatcher } from '../../../net/connect.ts'
import { parseObject } from '../../mcp/json.ts'
import { BackendFailure } from '../connection/failure.ts'
import { checkUnread, LONGEST_LINE, type OpenChannel, readSecrets, splitOutput } from './channel.ts'

interface AttachChannelOptions {
  readonly attach: NonNullable<StdioConfig['attach']>
  readonly directory: string
  readonly log: Logger
}

/** The first byte of each frame names the container's stream that the frame belongs to (Kubernetes, remotecommand). */
const STDIN = 0
const STDOUT = 1
const ERROR = 3
/** `v5` adds a signal that closes the standard input. An API server before 1.30 supports only `v4`. */
const PROTOCOLS = ['v5.channel.k8s.io', 'v4.channel.k8s.io']
const OPEN_MS = 10_000
/** The interval of pings, because load balancers in front of an API server cut idle connections. */
const PING_MS = 20_000
/** The largest frame that is sent, in bytes, because some API servers refuse larger ones. */
const FRAME = 32 * 1024

/**
 * Opens a channel to the standard input and output of a server's container by attaching through the API server. The
 * container's log already holds its error output. When the connection ends, the kubelet closes the container's input
 * (`stdinOnce`), and the server exits and is restarted. Attaching again then begins a new conversation.
 */
export function attachChannel({ attach, directory, log }: AttachChannelOptions): OpenChannel {
  const { namespace, pod, container, tokenFile, caFile } = attach
  const server = new URL(attach.server ?? API_SERVER)
  const token = secretFile(resolve(directory, tokenFile))
  const dispatcher = createDispatcher({
    origin: server.origin,
    caBundleFile: caFile === undefined ? undefined : resolve(directory, caFile),
    allowPrivateIP: true,
  })
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/attach`
  const query = new URLSearchParams({ container, stdin: 'true', stdout: 'true', stderr: 'false', tty: 'false' })
  const url = new URL(`${path}?${query}`, server)

  return async function openAttach(receiver) {
    const { ping, WebSocket } = await import('undici')
    const headers = { authorization: `Bearer ${readSecrets(token)}` }
    const socket = await waitForOpen(
      new WebSocket(url.href.replace(/^http/, 'ws'), { protocols: PROTOCOLS, headers, dispatcher }),
      () => findRefusal(url, headers, dispatcher),
    )
    const lines = splitOutput(receiver, log)
    let reason = 'the connection to the container ended'
    const pings = setInterval(() => ping(socket), PING_MS)
    pings.unref()
    socket.onmessage = ({ data }) => {
      const bytes = Buffer.from(data as ArrayBuffer)
      if (bytes[0] === STDOUT) lines.push(bytes.subarray(1))
      else if (bytes[0] === ERROR) reason = textOfStatus(bytes.toString('utf8', 1)) ?? reason
    }
    socket.onclose = () => {
      clearInterval(pings)
      receiver.closed(new BackendFailure('backend_unavailable', reason))
    }
    return {
      send(text) {
        if (socket.readyState !== WebSocket.OPEN) throw new BackendFailure('backend_unavailable', reason)
        checkUnread(socket.bufferedAmount)
        for (const frame of splitFrames(text)) socket.send(frame)
      },
      close: () => socket.close(),
    }
  }
}

/** Splits a line into frames for the container's standard input. */
function splitFrames(text: string): Uint8Array<ArrayBuffer>[] {
  const bytes = Buffer.from(`${text}\n`)
  if (bytes.length > LONGEST_LINE) throw new BackendFailure('backend_failed', 'the message is too long for the server')
  const frames: Uint8Array<ArrayBuffer>[] = []
  for (let at = 0; at < bytes.length; at += FRAME) {
    const part = bytes.subarray(at, at + FRAME)
    const frame = new Uint8Array(part.length + 1)
    frame[0] = STDIN
    frame.set(part, 1)
    frames.push(frame)
  }
  return frames
}

/** Waits until the socket is open. `refusal` finds the reason when it could not be opened. */
async function waitForOpen(socket: WebSocket, refusal: () => Promise<string | undefined>): Promise<WebSocket> {
  socket.binaryType = 'arraybuffer'
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const timer = setTimeout(() => reject(new Error(`no connection within ${OPEN_MS} ms`)), OPEN_MS)
  socket.onopen = () => resolve()
  socket.onerror = () => reject(new Error('the API server refused the connection'))
  try {
    await promise
    return socket
  } catch (error) {
    socket.onclose = null
    socket.close()
    const message = (await refusal()) ?? (error as Error).message
    throw new BackendFailure('backend_unavailable', `can’t attach: ${message}`, { cause: error })
  } finally {
    clearTimeout(timer)
    socket.onerror = null
  }
}

/**
 * Finds the reason why an attach was refused. A WebSocket reveals no status, but the same request without the upgrade
 * does.
 */
async function findRefusal(
  url: URL,
  headers: Record<string, string>,
  dispatcher: Dispatcher,
): Promise<string | undefined> {
  try {
    const answer = await request(url, { dispatcher, headers, signal: AbortSignal.timeout(2_000) })
    const text = await answer.body.text()
    return answer.statusCode < 400 ? undefined : `HTTP ${answer.statusCode} ${textOfStatus(text) ?? ''}`.trim()
  } catch (error) {
    return (error as Error).message
  }
}

/** Returns the message of a Kubernetes `Status` that is not a success. */
function textOfStatus(text: string): string | undefined {
  const { status, message } = parseObject(text) ?? {}
  return status !== 'Success' && typeof message === 'string' ? message : undefined
}
