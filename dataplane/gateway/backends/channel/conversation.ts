import type { Logger } from 'pino'
import { isObject } from '../../../../crds/shared/json.ts'
import { AnswerScanner } from '../../mcp/answer-scanner.ts'
import { editObject, memberText } from '../../mcp/json.ts'
import { parseJson } from '../../mcp/parse.ts'
import { notificationText } from '../../mcp/rpc-text.ts'
import { BackendFailure, connectionFailure } from '../connection/failure.ts'
import type { Channel, ChannelReceiver, OpenChannel } from './channel.ts'
import type { DroppedMessage } from './dropped-message.ts'
import type { Exchange } from './exchange.ts'
import { LONGEST_LINE } from './line-splitter.ts'
import type { Party, Pending } from './party.ts'
import { passNotification } from './server-notifications.ts'
import { ServerQuestions } from './server-questions.ts'

/** A request on its way into a conversation. */
export interface Asked {
  readonly text: string
  readonly id: string
  readonly method?: string | undefined
  readonly party: Party | undefined
  readonly exchange: Exchange
  /** Flat list of the request's headers. */
  readonly headers: readonly string[]
}

/** Requests of clients that go on to the server. */
const CALLS: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read'])
const LONGEST_LOGGED = 200
/** Its id is put in where it is answered. */
const TOO_LARGE = `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"The server’s answer is larger than ${LONGEST_LINE / 1024 / 1024} MiB."}}`
/** Lines of noise that are logged of one conversation. */
const MOST_NOISE = 20

/**
 * The one conversation that a channel carries, shared by many: ids and progress tokens on the channel are ours, so that
 * no two parties' meet, and each answer finds who asked. What a server says unasked goes to who it clearly concerns.
 */
export class Conversation {
  readonly parties = new Set<Party>()
  /** The server's answer to `initialize`, once it was asked. */
  initialized: Promise<string> | undefined
  /** The server has answered the probe of the stateless era, in time or late. */
  isStateless = false
  closed = false
  onClosed: (() => void) | undefined
  /** Told when it ends, before who waits for answers is. */
  readonly onEnding = new Set<() => void>()
  readonly #log: Logger
  readonly #pending = new Map<number, Pending>()
  readonly #present = { parties: this.parties, pending: this.#pending }
  readonly #questions = new ServerQuestions(this.#present, (text) => this.#tell(text))
  #channel: Channel | undefined
  #lastId = 0
  #noise = 0
  #closesWhenIdle = false

  private constructor(log: Logger) {
    this.#log = log
  }

  /** Opens a channel and talks on it. Rejects with a BackendFailure. */
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

  /** Passes a party's request on; its answer goes to its exchange. */
  ask({ text, id, method, party, exchange, headers }: Asked): void {
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
      party,
      exchange,
      id,
      token,
      isCall: method !== undefined && CALLS.has(method),
      answered: (answer) => {
        if (method === 'server/discover' && memberText(answer, 'result') !== undefined) this.isStateless = true
        exchange.answer(200, editObject(answer, { id }))
      },
      failed: (failure) => {
        if (failure.status === undefined) exchange.fail(failure)
        else exchange.answer(failure.status, '')
      },
    })
    exchange.onAborted = () => {
      this.#settle(own)
      // A party of the modern era cancels by going away; here that takes a message (2026-07-28, stdio).
      if (party === undefined) this.#tell(notificationText('notifications/cancelled', { requestId: own }))
    }
    this.#sendFor(own, editObject(text, edits), headers)
  }

  /** Sends a request; where that fails, so does the request. */
  #sendFor(own: number, text: string, headers?: readonly string[]): void {
    const failed = (error: unknown) => this.#settle(own)?.failed(connectionFailure(error))
    try {
      this.#put(text, headers)?.catch(failed)
    } catch (error) {
      failed(error)
    }
  }

  /** A request of our own. Gives the whole answer. */
  askOwn(method: string, params: string): Promise<string> {
    const own = ++this.#lastId
    return new Promise((resolve, reject) => {
      this.#pending.set(own, {
        party: undefined,
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

  /** Passes a party's wish on that its request be given up. */
  cancel(party: Party, requestId: unknown, text: string): void {
    const id = JSON.stringify(requestId)
    for (const [own, pending] of this.#pending) {
      if (pending.party !== party || pending.id !== id) continue
      const params = memberText(text, 'params') as string
      this.send(editObject(text, { params: editObject(params, { requestId: String(own) }) }))
      return
    }
  }

  /** Passes a party's answer on, where it was that party that was asked. */
  answer(party: Party, id: string, text: string): void {
    if (this.#questions.settle(party, id)) this.send(text)
  }

  /** Sends what needs no answer; whether it arrives is of no consequence. Throws where the conversation is over. */
  send(text: string, headers?: readonly string[]): void {
    this.#put(text, headers)?.catch(() => {})
  }

  #put(text: string, headers?: readonly string[]): Promise<void> | undefined {
    if (this.closed || this.#channel === undefined)
      throw new BackendFailure('backend_unavailable', 'the connection to the server is over')
    // What was written with line breaks is one line on the channel.
    const sent = this.#channel.send(/[\r\n]/.test(text) ? text.replaceAll(/[\r\n]/g, ' ') : text, headers)
    return sent instanceof Promise ? sent : undefined
  }

  #tell(text: string): void {
    try {
      this.send(text)
    } catch {
      // It is over; nobody waits for this.
    }
  }

  leave(party: Party): void {
    this.parties.delete(party)
    party.listening?.end()
    this.#questions.forget(party)
  }

  close(): void {
    this.#channel?.close()
  }

  /** Ends once all requests are answered. */
  closeWhenIdle(): void {
    this.#closesWhenIdle = true
    if (this.#pending.size === 0) this.close()
  }

  #settle(own: number): Pending | undefined {
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
    for (const party of this.parties) party.listening?.end()
    this.parties.clear()
    this.onClosed?.()
  }

  /** A message that can't be handled, by a fault of our own, costs itself alone. */
  #take(text: string): void {
    try {
      this.#handle(text)
    } catch (error) {
      this.#log.error({ err: error }, 'what the server wrote could not be handled')
    }
  }

  #handle(text: string): void {
    const scanner = new AnswerScanner()
    scanner.scan(Buffer.from(text), [])
    if (!scanner.complete || !(scanner.hasMethod || scanner.isAnswer)) this.#ignore(text)
    else if (scanner.isAnswer) this.#answered(scanner.id, text)
    else this.#told(scanner.id, text)
  }

  /** A message could not be taken: who waits for it, on either side, is told so. */
  #dropped({ answerTo, requestId }: DroppedMessage): void {
    if (answerTo !== undefined) this.#answered(answerTo, TOO_LARGE)
    else if (requestId !== undefined) this.#questions.refuse(requestId, 'The request is too large.')
  }

  /** Servers print banners and traces where only messages should be. */
  #ignore(text: string): void {
    if (++this.#noise <= MOST_NOISE)
      this.#log.warn({ line: text.slice(0, LONGEST_LOGGED) }, 'the server wrote something that is no message')
  }

  #answered(id: string | undefined, text: string): void {
    this.#settle(Number(id))?.answered(text)
  }

  #told(id: string | undefined, text: string): void {
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
      // Who asks waits for an answer, however it asks.
      if (id !== undefined) this.#questions.refuse(id, 'The method is none.')
      return
    }
    const params = isObject(message['params']) ? message['params'] : {}
    if (id !== undefined) this.#questions.ask(method, id, text)
    else passNotification({ method, params, text }, this.#present)
  }
}
