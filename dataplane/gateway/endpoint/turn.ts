import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Caller } from '../../identity/caller.ts'
import { publicError } from '../../server/answer.ts'
import { PublicError } from '../../server/errors.ts'
import { checkHost } from '../../server/hosts.ts'
import type { End, Operation, Outcome } from '../../telemetry/observe.ts'
import type { Gateway } from '../gateway.ts'
import { eraOf } from '../mcp/classify.ts'
import { Message, parseMessage } from '../mcp/message.ts'
import { resultText } from '../mcp/rpc-text.ts'
import { bindingOf } from '../sessions/binding.ts'
import type { EventLog } from '../sessions/event-log.ts'
import type { Session } from '../sessions/sessions.ts'
import type { Setup } from '../setup.ts'
import { checkPost, LARGEST_BODY, MOST_READ_AWAY, tooLarge } from './accept.ts'
import { serveBatch } from './batch.ts'
import { serveLegacy } from './legacy.ts'
import { serveModern } from './modern.ts'
import type { LogOpener, Reply } from './reply.ts'

/** Where a request's turn is found from Node's objects, so that no listener needs a closure of its own. */
const turnKey = Symbol('turn')

interface Incoming extends IncomingMessage {
  [turnKey]?: Turn
}

interface Outgoing extends ServerResponse {
  [turnKey]?: Turn
}

const MOST_KNOWN_HOSTS = 256

/** One request to the MCP endpoint, from its headers to its answer. */
export class Turn implements LogOpener {
  readonly gateway: Gateway
  /** What is in force for this request, whatever is reloaded meanwhile. */
  readonly setup: Setup
  readonly req: IncomingMessage
  readonly reply: Reply
  caller: Caller = { kind: 'anonymous' }
  binding = ''
  era: 'modern' | 'legacy' = 'legacy'
  session: Session | undefined
  /** Told when the client goes away before its answer is whole. */
  onGone: { gone(): void } | undefined
  #message: Message | undefined
  #chunks: Buffer[] = []
  #size = 0
  #end: End | undefined

  constructor(gateway: Gateway, req: IncomingMessage, reply: Reply) {
    this.gateway = gateway
    this.setup = gateway.setup
    this.req = req
    this.reply = reply
    reply.opener = this
  }

  /** Where the stream that answers a request of a session is kept, for a client that loses it. */
  openLog(): EventLog | undefined {
    const id = this.#message?.id
    return this.session === undefined || id === undefined
      ? undefined
      : this.gateway.streams.open(this.session.record, id)
  }

  /** The parsed body of a POST. */
  get message(): Message {
    return this.#message as Message
  }

  /** Checks what all methods have in common and finds out who calls; then goes on with `next`. */
  admit(next: (turn: Turn) => void | Promise<void>): void {
    const { headers } = this.req
    this.#checkHost(headers.host, headers.origin)
    const caller = this.setup.authenticate(headers.authorization)
    if (caller instanceof Promise) {
      caller.then((known) => this.#admitted(known, next)).catch((error) => this.fail(error))
      return
    }
    this.#admitted(caller, next)
  }

  /** The same few hosts come again and again: what was found good is remembered. */
  #checkHost(host: string | undefined, origin: string | undefined): void {
    const { knownHosts, hostNames } = this.setup
    if (origin === undefined && host !== undefined && knownHosts.has(host)) return
    checkHost(hostNames, host, origin)
    if (host !== undefined && knownHosts.size < MOST_KNOWN_HOSTS) knownHosts.add(host)
  }

  #admitted(caller: Caller, next: (turn: Turn) => void | Promise<void>): void {
    this.caller = caller
    this.binding = bindingOf(caller)
    this.run(next)
  }

  /** Runs a step; what it throws or rejects with becomes the answer. */
  run(step: (turn: Turn) => void | Promise<void>): void {
    try {
      const running = step(this)
      if (running !== undefined) running.catch((error) => this.fail(error))
    } catch (error) {
      this.fail(error)
    }
  }

  /** Reads the body; `dispatch` goes on when it is whole. */
  readBody(): void {
    const req: Incoming = this.req
    req[turnKey] = this
    req.on('data', onData)
    req.on('end', onEnd)
    const res: Outgoing = this.reply.res
    res[turnKey] = this
    res.on('close', onClose)
  }

  take(chunk: Buffer): void {
    this.#size += chunk.length
    if (this.#size <= LARGEST_BODY) this.#chunks.push(chunk)
    else if (this.#size <= MOST_READ_AWAY) this.#chunks = []
    else if (!this.reply.begun) this.fail(tooLarge())
  }

  /** Makes the message this turn's. */
  adopt(message: Message): void {
    this.#message = message
    this.#end = this.gateway.observe(operationOf(message.method))
  }

  /** Parses the body and hands it to the era that it speaks. */
  dispatch(): void {
    if (this.reply.begun) return
    if (this.#size > LARGEST_BODY) throw new PublicError('too_large')
    const body = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks)
    this.#chunks = []
    const message = parseMessage(body)
    if (!(message instanceof Message)) {
      this.run((turn) => serveBatch(turn, message))
      return
    }
    this.adopt(message)
    this.era = eraOf(message, this.req.headers)
    if (this.era === 'modern') serveModern(this)
    else this.run(serveLegacy)
  }

  /** Answers the request with a result, given as JSON text. */
  result(json: string, extra?: readonly string[]): void {
    this.reply.json(200, resultText(this.message.id as string, json), extra)
    this.ended(OK)
  }

  /** Answers with a result that is there already serialized. */
  resultBytes(json: Buffer): void {
    const head = `{"jsonrpc":"2.0","id":${this.message.id},"result":`
    const length = Buffer.byteLength(head)
    const body = Buffer.allocUnsafe(length + json.length + 1)
    body.write(head)
    json.copy(body, length)
    body[body.length - 1] = 0x7d
    this.reply.json(200, body)
    this.ended(OK)
  }

  /** Takes a notification: there is nothing to answer. */
  accepted(): void {
    this.reply.empty(202)
    this.ended(OK)
  }

  /** Answers with what a caller may know of the error. */
  fail(thrown: unknown): void {
    const error = thrown instanceof PublicError ? publicError(thrown, this.gateway.log) : this.#internal(thrown)
    const message = this.#message
    if (this.reply.begun && !this.reply.streaming) this.reply.cut()
    else this.reply.error(error, message?.id, this.#statusOf(error))
    this.#end ??= this.gateway.observe(OTHER)
    this.ended({ result: error.status === 401 || error.status === 403 ? 'denied' : 'error', code: error.code })
  }

  /** A fault of our own: the log has what it is, the caller an id to ask by. */
  #internal(thrown: unknown): PublicError {
    const requestId = randomUUID()
    const { code } = publicError(thrown, this.gateway.log.child({ requestId }))
    return new PublicError(code, { headers: { 'x-request-id': requestId } })
  }

  /**
   * Clients of the legacy era take every other status than 200 for a failure of the transport and look at no body;
   * so an error that belongs to a request of a living session comes with 200.
   */
  #statusOf(error: PublicError): number {
    const answersRequest = this.era === 'legacy' && this.session !== undefined && this.#message?.id !== undefined
    return answersRequest && error.status < 500 && error.status !== 403 && error.status !== 429 ? 200 : error.status
  }

  ended(outcome: Outcome): void {
    this.onGone = undefined
    this.#end?.(outcome)
    this.#end = undefined
  }
}

export const OK: Outcome = { result: 'ok' }

/** Takes a POST to the MCP endpoint. */
export function post(turn: Turn): void {
  turn.run(startPost)
}

/** Who calls comes first: a client learns of the authorization server however it asks. */
function startPost(turn: Turn): void {
  turn.admit(takeBody)
}

function takeBody(turn: Turn): void {
  checkPost(turn.req)
  turn.readBody()
}

const dispatch = (turn: Turn) => turn.dispatch()

function onData(this: Incoming, chunk: Buffer): void {
  this[turnKey]?.take(chunk)
}

function onEnd(this: Incoming): void {
  this[turnKey]?.run(dispatch)
}

function onClose(this: Outgoing): void {
  const turn = this[turnKey]
  if (!this.writableFinished) turn?.onGone?.gone()
}

const operations = new Map<string, Operation>(
  [
    'initialize',
    'ping',
    'server/discover',
    'tools/list',
    'tools/call',
    'prompts/list',
    'prompts/get',
    'resources/list',
    'resources/templates/list',
    'resources/read',
    'resources/subscribe',
    'resources/unsubscribe',
    'completion/complete',
    'logging/setLevel',
    'subscriptions/listen',
    'tasks/get',
    'tasks/update',
    'tasks/result',
    'tasks/list',
    'tasks/cancel',
  ].map((name) => [name, { kind: 'request', name }]),
)
const OTHER: Operation = { kind: 'request', name: 'other' }
/** Names of methods come from callers: what we don't know is one name. */
const operationOf = (method: string): Operation => operations.get(method) ?? OTHER
