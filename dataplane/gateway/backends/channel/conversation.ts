import type { Logger } from 'pino'
import { isObject } from '../../../../crds/settings/json.ts'
import { AnswerScanner, NO_ID } from '../../mcp/answer-scanner.ts'
import { editObject, memberText } from '../../mcp/json.ts'
import { parseJson } from '../../mcp/parse.ts'
import { notificationText } from '../../mcp/rpc-text.ts'
import { BackendFailure, connectionFailure, type SaidError } from '../connection/failure.ts'
import { isKnownBy } from '../connection/session-check.ts'
import type { Channel, ChannelReceiver, DroppedMessage, OpenChannel } from './channel.ts'
import type { ChannelClient, PendingRequest } from './channel-client.ts'
import type { Exchange } from './exchange.ts'
import { LONGEST_LINE } from './line-splitter.ts'
import { passNotification, ServerRequests } from './server-messages.ts'

/** A client's request for the server. */
export interface ForwardedRequest {
  readonly text: string
  readonly id: string
  readonly method?: string | undefined
  readonly client: ChannelClient | undefined
  readonly exchange: Exchange
  /** The request's headers, as a flat list. */
  readonly headers: readonly string[]
}

/** The methods whose requests are forwarded to the server. */
const CALLS: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read'])
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
  readonly #serverRequests = new ServerRequests(this.#participants, (text) => this.#trySend(text))
  #channel: Channel | undefined
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
      isCall: method !== undefined && CALLS.has(method),
      answered: (answer) => {
        if (method === 'server/discover' && memberText(answer, 'result') !== undefined) this.isModern = true
        if (method === 'ping' && !isKnownBy({ status: 200, text: answer })) this.#doubt()
        exchange.answer(200, editObject(answer, { id }))
      },
      failed: (failure) => {
        if (failure.status === undefined) exchange.fail(failure)
        else exchange.answer(failure.status, failure.said === undefined ? '' : errorMessage(failure.said, id))
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
    const failed = (error: unknown) => this.#settle(own)?.failed(connectionFailure(error))
    try {
      this.#put(text, headers)?.catch(failed)
    } catch (error) {
      failed(error)
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

  /** Forwards a client's cancellation of its request. */
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

  remove(client: ChannelClient): void {
    this.clients.delete(client)
    client.listening?.end()
    this.#serverRequests.refuseAllOf(client)
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
    let message: unknown
    try {
      message = parseJson(text)
    } catch {
      this.#ignore(text)
      return
    }
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
const errorMessage = ({ error, isOwn }: SaidError, id: string): string =>
  `{"jsonrpc":"2.0","id":${isOwn ? id : NO_ID},"error":${error}}`
