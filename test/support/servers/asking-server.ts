import type { ServerResponse } from 'node:http'
import type { RpcMessage } from '../gateway/rpc-message.ts'
import { type RawRequest, type RawServer, startRawServer } from './raw-server.ts'

/** The stream of a call in which the backend asks something. */
export interface AskingCall {
  readonly request: RawRequest
  /** All answers to its questions, as whole messages. */
  readonly answers: RpcMessage[]
  /** True if the backend has lost the client of the call. */
  readonly isClosed: boolean
  /** Number of bytes that nobody has read yet. */
  readonly unread: number
  /** Sends one message on the stream. */
  say(message: object): void
  /** Answers the call with this result and ends the stream. */
  finish(result: object): void
}

export interface AskingServer extends RawServer {
  readonly asking: AskingCall[]
}

export interface AskingServerOptions {
  readonly method?: string
  readonly params?: object
  /** Called with each answer to a question. */
  onAnswer?(call: AskingCall, message: RpcMessage): void
}

/** Returns the field `name` of a form that the client has sent as its answer. */
export const nameIn = ({ result }: RpcMessage): unknown => (result['content'] as { name?: unknown }).name

/** A hand-written legacy backend whose one tool, `t`, asks something; the test writes the messages. */
export async function startAskingServer(options: AskingServerOptions = {}): Promise<AskingServer> {
  const { method = 'elicitation/create', params = { message: 'Who?', requestedSchema: { type: 'object' } } } = options
  const asking: AskingCall[] = []
  const open = new Map<string, AskingCall>()
  const server = await startRawServer({
    era: 'legacy',
    call(request, res) {
      const call = createCall(request, res)
      asking.push(call)
      const id = `question-${asking.length}`
      open.set(id, call)
      call.say({ id, method, params })
      return undefined
    },
    before({ message }, res) {
      const call = message.method === undefined ? open.get(String(message.id)) : undefined
      if (call === undefined) return false
      res.writeHead(202).end()
      const answer = message as RpcMessage
      call.answers.push(answer)
      options.onAnswer?.(call, answer)
      return true
    },
  })
  return Object.assign(server, { asking })
}

function createCall(request: RawRequest, res: ServerResponse): AskingCall {
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  const sendMessage = (message: object) => void res.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`)
  return {
    request,
    answers: [],
    get isClosed() {
      return res.destroyed
    },
    get unread() {
      return res.writableLength
    },
    say: sendMessage,
    finish(result) {
      sendMessage({ id: request.message.id, result })
      res.end()
    },
  }
}
