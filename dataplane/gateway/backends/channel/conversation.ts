import type { Logger } from 'pino'
import { isObject } from '../../../../crds/settings/json.ts'
import { AnswerScanner, NO_ID } from '../../mcp/answer-scanner.ts'
import { askable } from '../../mcp/client-capabilities.ts'
import { MAY_ASK } from '../../mcp/eras.ts'
import { editObject, memberText, tryParse } from '../../mcp/json.ts'
import { isId } from '../../mcp/message.ts'
import { notificationText } from '../../mcp/rpc-text.ts'
import { BackendFailure, connectionFailure, type RpcError } from '../connection/failure.ts'
import { MOST_ANSWERS } from '../connection/http.ts'
import { isKnownBy } from '../connection/session-check.ts'
import { type Channel, type ChannelReceiver, type DroppedMessage, LONGEST_LINE, type OpenChannel } from './channel.ts'
import {
  type ChannelClient,
  findAddressee,
  type ParsedMessage,
  type Participants,
  type PendingRequest,
  wantsLogLevel,
} from './channel-client.ts'
import type { Exchange } from './exchange.ts'

/** A client's request for the server. */
interface ForwardedRequest {
  readonly text: string
  readonly id: string
  readonly method?: string | undefined
  readonly client: ChannelClient | undefined
  readonly exchange: Exchange
  /** The request's headers, as a flat list. */
  readonly headers: readonly string[]
}

const LONGEST_LOGGED = 200
/** The error for an oversized answer. The id is inserted when it is sent. */
const TOO_LARGE = `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"The server’s answer is larger than ${LONGEST_LINE / 1024 / 1024} MiB."}}`
/** The most unreadable lines that are logged for one conversation. */
const MOST_NOISE = 20

/**
 * The one conversation that a channel carries, shared by many clients. The gateway assigns ids and progress tokens on
 * the channel, so that those of two clients never collide and each answer finds its request. An unsolicited message of
 * the server goes to the client that it is clearly for.
 */
export class Conversation {
  readonly clients = new Set<ChannelClient>()
  /** The server's answer to `initialize`, once sent. */
  initialized: Promise<string> | undefined
  /**
   * True if a ping has failed since `initialize`. The server may have lost its state, as a bridge to another server
   * does.
   */
  isDoubted = false
  /** True if the server has answered the probe of the modern era, in time or late. */
  isModern = false
  closed = false
  onClosed: (() => void) | undefined
  /** Called when it ends, before the pending requests fail. */
  readonly onEnding = new Set<() => void>()
  readonly #log: Logger
  readonly #pending = new Map<number, PendingRequest>()
  readonly #participants = { clients: this.clients, pending: this.#pending }
  readonly #serverRequests = new ServerRequests(this.#participants, (text) => this.#respond(text))
  #channel: Channel | undefined
  /** The number of answers to the server's requests that are on their way to it. */
  #answering = 0
  #lastId = 0
  #noise = 0
  #closesWhenIdle = false

  private constructor(log: Logger) {
    this.#log = log
  }

  /** Opens a channel and begins a conversation on it. Rejects with a BackendFailure. */
  static async open(openChannel: OpenChannel, headers: readonly string[], log: Logger): Promise<Conversation> {
    const conversation = new Conversation(log)
    const receiver: ChannelReceiver = {
      message: (text) => conversation.#take(text),
      tooLarge: (message) => conversation.#dropped(message),
      closed: (reason) => conversation.#end(reason),
    }
    conversation.#channel = await openChannel(receiver, headers)
    return conversation
  }

  /** Forwards a client's request. Its answer goes to its exchange. */
  forward({ text, id, method, client, exchange, headers }: ForwardedRequest): void {
    if (exchange.over) return
    const own = ++this.#lastId
    const params = memberText(text, 'params')
    const meta = params === undefined ? undefined : memberText(params, '_meta')
    const token = meta === undefined ? undefined : memberText(meta, 'progressToken')
    const edits: Record<string, string> = { id: String(own) }
    if (token !== undefined)
      edits['params'] = editObject(params as string, {
        _meta: editObject(meta as string, { progressToken: String(own) }),
      })
    this.#pending.set(own, {
      client,
      exchange,
      id,
      token,
      isCall: method !== undefined && MAY_ASK.has(method),
      answered: (answer) => {
        if (method === 'server/discover' && memberText(answer, 'result') !== undefined) this.isModern = true
        if (method === 'ping' && !isKnownBy({ status: 200, text: answer })) this.#doubt()
        exchange.answer(200, editObject(answer, { id }))
      },
      failed: (failure) => {
        if (failure.status === undefined) exchange.fail(failure)
        else exchange.answer(failure.status, failure.rpcError === undefined ? '' : errorMessage(failure.rpcError, id))
      },
    })
    exchange.onAborted = () => {
      this.#settle(own)
      if (method === 'ping') this.#doubt()
      // A modern client cancels by disconnecting, but stdio requires a message (2026-07-28, stdio).
      if (client === undefined) this.#trySend(notificationText('notifications/cancelled', { requestId: own }))
    }
    this.#sendFor(own, editObject(text, edits), headers)
  }

  #doubt(): void {
    this.isDoubted = true
    this.initialized = undefined
  }

  /** Sends a request. If that fails, the request fails too. */
  #sendFor(own: number, text: string, headers?: readonly string[]): void {
    const fail = (error: unknown) => this.#settle(own)?.failed(connectionFailure(error))
    try {
      this.#put(text, headers)?.catch(fail)
    } catch (error) {
      fail(error)
    }
  }

  /** Sends one of the gateway's own requests. Returns the whole answer. */
  request(method: string, params: string): Promise<string> {
    const own = ++this.#lastId
    return new Promise((resolve, reject) => {
      this.#pending.set(own, {
        client: undefined,
        exchange: undefined,
        id: String(own),
        token: undefined,
        isCall: false,
        answered: resolve,
        failed: reject,
      })
      this.#sendFor(own, `{"jsonrpc":"2.0","id":${own},"method":${JSON.stringify(method)},"params":${params}}`)
    })
  }

  cancel(client: ChannelClient, requestId: unknown, text: string): void {
    const id = JSON.stringify(requestId)
    for (const [own, pending] of this.#pending) {
      if (pending.client !== client || pending.id !== id) continue
      const params = memberText(text, 'params') as string
      this.send(editObject(text, { params: editObject(params, { requestId: String(own) }) }))
      return
    }
  }

  /** Forwards a client's response if the server's request went to that client. */
  answer(client: ChannelClient, id: string, text: string): void {
    if (this.#serverRequests.settle(client, id)) this.send(text)
  }

  /** Sends a message that gets no answer and may be lost. Throws if the conversation has ended. */
  send(text: string, headers?: readonly string[]): void {
    this.#put(text, headers)?.catch(() => {
      // The loss is acceptable: the message's request fails by itself when the channel ends.
    })
  }

  #put(text: string, headers?: readonly string[]): Promise<void> | undefined {
    if (this.closed || this.#channel === undefined)
      throw new BackendFailure('backend_unavailable', 'the connection to the server is over')
    // The channel separates messages by line breaks, so a message must be one line.
    const sent = this.#channel.send(/[\r\n]/.test(text) ? text.replaceAll(/[\r\n]/g, ' ') : text, headers)
    return sent instanceof Promise ? sent : undefined
  }

  #trySend(text: string): void {
    try {
      this.send(text)
    } catch {
      // The conversation has ended, and no request waits for this message.
    }
  }

  /** Answers a request of the server, unless as many answers as it may have are still on their way. */
  #respond(text: string): void {
    if (this.#answering >= MOST_ANSWERS) return
    let sent: Promise<void> | undefined
    try {
      sent = this.#put(text)
    } catch {
      // The conversation has ended, and the server waits for no answer.
    }
    // A process reads its input by itself, and its channel bounds what it has not read.
    if (sent === undefined) return
    this.#answering++
    sent
      .finally(() => {
        this.#answering--
      })
      .catch(() => {
        // The server needs the answer more than the gateway does.
      })
  }

  remove(client: ChannelClient): void {
    this.clients.delete(client)
    client.listening?.end()
    this.#serverRequests.refuseAll(client)
  }

  close(): void {
    this.#channel?.close()
  }

  /** Ends the conversation once all requests are answered. */
  closeWhenIdle(): void {
    this.#closesWhenIdle = true
    if (this.#pending.size === 0) this.close()
  }

  #settle(own: number): PendingRequest | undefined {
    const pending = this.#pending.get(own)
    this.#pending.delete(own)
    if (this.#closesWhenIdle && this.#pending.size === 0) this.close()
    return pending
  }

  #end(reason: BackendFailure): void {
    if (this.closed) return
    this.closed = true
    for (const ending of this.onEnding) ending()
    const pending = [...this.#pending.values()]
    this.#pending.clear()
    for (const { failed } of pending) failed(reason)
    for (const client of this.clients) client.listening?.end()
    this.clients.clear()
    this.onClosed?.()
  }

  /** Handles a message. If a bug of the gateway throws, only that message is lost. */
  #take(text: string): void {
    try {
      this.#handle(text)
    } catch (error) {
      this.#log.error({ err: error }, 'a message of the server could not be processed')
    }
  }

  #handle(given: string): void {
    const scanner = new AnswerScanner()
    const parts: Buffer[] = []
    scanner.scan(Buffer.from(given), parts)
    // A byte order mark, and an array around a single message, are removed.
    const text = !scanner.complete || given.startsWith('{') ? given : Buffer.concat(parts).toString()
    if (!scanner.complete || !(scanner.hasMethod || scanner.isAnswer)) this.#ignore(text)
    else if (scanner.isAnswer) this.#answered(scanner.id, text)
    else this.#received(scanner.id, text)
  }

  /** Handles an oversized message. An answer fails its request; a request gets an error. */
  #dropped({ answerTo, requestId }: DroppedMessage): void {
    if (answerTo !== undefined) this.#answered(answerTo, TOO_LARGE)
    else if (requestId !== undefined) this.#serverRequests.refuse(requestId, 'The request is too large.')
  }

  /** Handles a line that is not a message, because servers print banners and traces between messages. */
  #ignore(text: string): void {
    if (++this.#noise <= MOST_NOISE)
      this.#log.warn({ line: text.slice(0, LONGEST_LOGGED) }, 'the server wrote a line that is not a JSON-RPC message')
  }

  #answered(id: string | undefined, text: string): void {
    // Some servers return a numeric id as text.
    this.#settle(Number(id?.replaceAll('"', '')))?.answered(text)
  }

  #received(id: string | undefined, text: string): void {
    const message = tryParse(text)
    if (message === undefined) this.#ignore(text)
    if (!isObject(message)) return
    const { method } = message
    if (typeof method !== 'string') {
      // The server waits for a response, although its method is invalid.
      if (id !== undefined) this.#serverRequests.refuse(id, 'The method must be a string.')
      return
    }
    const params = isObject(message['params']) ? message['params'] : {}
    if (id !== undefined) this.#serverRequests.forward(method, id, text)
    else passNotification({ method, params, text }, this.#participants)
  }
}

/** Builds the message for an error that came with an HTTP status. `id`: the id of the client's request (JSON text). */
const errorMessage = ({ error, isOwn }: RpcError, id: string): string =>
  `{"jsonrpc":"2.0","id":${isOwn ? id : NO_ID},"error":${error}}`

/** The most open requests. Beyond it the oldest is refused, because some are never answered while the client stays. */
const MOST_OPEN = 256

const SUBSCRIPTION_KEY = 'io.modelcontextprotocol/subscriptionId'

/**
 * Routes a server's requests to its clients. A request goes to a client only if no other client can be meant, and only
 * that client's response is returned. The response of another user would leak data.
 */
export class ServerRequests {
  readonly #participants: Participants
  /** Sends a message to the server if it is still connected. */
  readonly #respond: (text: string) => void
  /** The client that each request went to, by the id of the request. */
  readonly #open = new Map<string, ChannelClient>()

  constructor(participants: Participants, respond: (text: string) => void) {
    this.#participants = participants
    this.#respond = respond
  }

  /** Forwards a request of the server to a client, or refuses it. `id` is JSON text. */
  forward(method: string, id: string, text: string): void {
    if (method === 'ping') {
      this.#respond(`{"jsonrpc":"2.0","id":${id},"result":{}}`)
      return
    }
    const capability = Object.hasOwn(askable, method) ? askable[method] : undefined
    const { client, exchange, isCall } = findAddressee(this.#participants) ?? {}
    const isKnown = capability !== undefined && client !== undefined && exchange !== undefined
    if (!isKnown || !(isCall || client.capabilities[capability] !== undefined)) {
      this.refuse(id, 'No client can answer this now.')
      return
    }
    this.#open.set(id, client)
    const [oldest] = this.#open.keys()
    if (this.#open.size > MOST_OPEN)
      this.refuse(oldest as string, 'Too many questions are open at once; answer or cancel some.')
    exchange.event(text)
  }

  refuse(id: string, message: string): void {
    this.#open.delete(id)
    this.#respond(`{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":${JSON.stringify(message)}}}`)
  }

  /** Closes a request that a client has responded to. Returns false if the request went to another client. */
  settle(client: ChannelClient, id: string): boolean {
    return this.#open.get(id) === client && this.#open.delete(id)
  }

  /** Refuses the open requests of a client that has disconnected. */
  refuseAll(client: ChannelClient): void {
    for (const [id, addressed] of this.#open) if (addressed === client) this.refuse(id, 'The client has gone.')
  }
}

/** Passes a server's notification to the clients that it clearly is for, with their own ids. */
function passNotification(notification: ParsedMessage, participants: Participants): void {
  const { method, params, text } = notification
  const subscription = readSubscription(params)
  if (method === 'notifications/progress') passProgress(notification, participants)
  else if (subscription !== undefined) passToSubscription(readNumber(subscription), text, participants)
  else if (method === 'notifications/message' || method === 'notifications/cancelled') {
    const { client, exchange } = findAddressee(participants) ?? {}
    if (method === 'notifications/cancelled' || wantsLogLevel(client, params['level'])) exchange?.event(text)
  } else passToSubscribers(notification, participants)
}

/** Returns the JSON value of the modern subscription that a notification belongs to. */
function readSubscription({ _meta: meta }: Readonly<Record<string, unknown>>): unknown {
  return isObject(meta) ? meta[SUBSCRIPTION_KEY] : undefined
}

/** Passes a notification to all clients or, if a resource has changed, to its subscribers. */
function passToSubscribers({ method, params, text }: ParsedMessage, { clients }: Participants): void {
  const uri = method === 'notifications/resources/updated' ? params['uri'] : undefined
  for (const { listening, subscribed } of clients)
    if (uri === undefined || (typeof uri === 'string' && subscribed.has(uri))) listening?.event(text)
}

function passProgress({ params, text }: ParsedMessage, { pending }: Participants): void {
  const request = pending.get(readNumber(params['progressToken']))
  if (request?.token === undefined) return
  const edited = editObject(memberText(text, 'params') as string, { progressToken: request.token })
  request.exchange?.event(editObject(text, { params: edited }))
}

/**
 * Reads one of the gateway's ids in a server's message, because servers may turn numbers into text. NaN for any other
 * id.
 */
const readNumber = (id: unknown): number => (isId(id) ? Number(id) : Number.NaN)

function passToSubscription(own: number, text: string, { pending }: Participants): void {
  const request = pending.get(own)
  if (request === undefined) return
  const params = memberText(text, 'params') as string
  const meta = editObject(memberText(params, '_meta') as string, { [SUBSCRIPTION_KEY]: request.id })
  request.exchange?.event(editObject(text, { params: editObject(params, { _meta: meta }) }))
}
