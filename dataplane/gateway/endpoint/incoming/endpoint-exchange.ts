import type { IncomingMessage, ServerResponse } from 'node:http'
import { PublicError } from '../../../server/errors.ts'
import type { Outcome } from '../../../telemetry/observe.ts'
import type { Gateway } from '../../core/gateway.ts'
import type { View } from '../../core/view.ts'
import { COPIES, type Message } from '../../mcp/message.ts'
import { Exchange, REQUEST_BYTES, type Understood } from '../../request/exchange.ts'
import type { Reply } from '../../request/reply.ts'
import { RecordedReply, readClientName, recordsAnswers } from '../../request/request-record.ts'
import { CALL_TOOL } from '../../search/tool-search.ts'
import { CLIENT_NOTE } from '../../usage/rows.ts'
import type { Usage } from '../../usage/usage.ts'

/** The largest body of a POST in bytes. */
export const LARGEST_BODY = 8 * 1024 * 1024

/**
 * Returns the error for a body that is too large. It closes the connection, because the rest of the body is not read.
 */
export const tooLarge = (): PublicError => new PublicError('too_large', { headers: { connection: 'close' } })

/** An exchange whose message was parsed. Functions that serve a message take it. */
export type EndpointRequest = EndpointExchange & Understood

/** An exchange with its gateway, and the request's body while that is read. */
export class EndpointExchange extends Exchange {
  readonly gateway: Gateway
  /** The caller's view of the backends. Before admission it is the shared view. */
  readonly view: View
  readonly res: ServerResponse
  /** True if it serves another request (`innerRequest`), whose HTTP headers describe that request's call. */
  readonly isInner: boolean = false
  /** The received bytes of the body. Most bodies have one chunk. */
  #body: Buffer | undefined
  #more: Buffer[] | undefined
  #size = 0
  #expected = 0
  #isWhole = false

  /** @param of the exchange that this one is a part of, with the same client and view */
  constructor(gateway: Gateway, res: ServerResponse, reply: Reply, of?: EndpointExchange) {
    const { log } = gateway.audit
    super(gateway, res.req, log === undefined || !recordsAnswers(log) ? reply : new RecordedReply(reply, log), of)
    this.gateway = gateway
    this.view = of?.view ?? gateway.shared
    this.res = res
  }

  see(view: View & { readonly binding: string }): this {
    const known = this as { -readonly [Name in 'view' | 'binding']: EndpointExchange[Name] }
    known.view = view
    known.binding = view.binding
    return this
  }

  /** True if it is only one step of the work for another request. */
  get isPart(): boolean {
    return false
  }

  protected override get findsErrors(): boolean {
    return this.gateway.usage !== undefined
  }

  protected override counted(outcome: Outcome): void {
    if (this.gateway.usage !== undefined) countUsage(this.gateway.usage, this, outcome)
  }

  /** Reserves the memory that a body of this size will need. Throws if the share is full. */
  expect(size: number): void {
    this.hold(REQUEST_BYTES + COPIES * size)
    this.#expected = size
  }

  take(chunk: Buffer): void {
    if (this.reply.begun) return
    this.#size += chunk.length
    try {
      if (this.#size > LARGEST_BODY) throw tooLarge()
      if (this.#size > this.#expected) this.expect(this.#size)
      if (this.#body === undefined) this.#body = chunk
      else (this.#more ??= []).push(chunk)
    } catch (error) {
      this.#forgetBody()
      this.fail(error)
    }
  }

  /** Returns the whole body and drops it from this object. */
  takeBody(): Buffer {
    this.#isWhole = true
    const first = this.#body ?? NOTHING
    const more = this.#more
    this.#forgetBody()
    return more === undefined ? first : Buffer.concat([first, ...more])
  }

  #forgetBody(): void {
    this.#body = undefined
    this.#more = undefined
  }

  /** Drops an incomplete body after its connection was lost. */
  abandoned(): void {
    this.onGone?.gone()
    if (this.#isWhole) return
    this.#forgetBody()
    this.release()
  }
}

const NOTHING = Buffer.alloc(0)

/** The key of the request on Node's objects. With it listeners need no closures of their own. */
const key = Symbol('request')

interface Incoming extends IncomingMessage {
  [key]?: EndpointExchange
}

interface Outgoing extends ServerResponse {
  [key]?: EndpointExchange
}

type Next = (request: EndpointExchange) => void

/** Returns the function that reads a request's body and then calls `next`. */
export function bodyReader(next: Next): (request: EndpointExchange) => void {
  function onEnd(this: Incoming): void {
    this[key]?.run(next)
  }
  return (request) => {
    const req: Incoming = request.req
    req[key] = request
    req.on('data', onData)
    req.on('end', onEnd)
    const res: Outgoing = request.res
    res[key] = request
    res.on('close', onClose)
  }
}

function onData(this: Incoming, chunk: Buffer): void {
  const request = this[key]
  try {
    request?.take(chunk)
  } catch (error) {
    request?.fail(error)
  }
}

function onClose(this: Outgoing): void {
  const request = this[key]
  if (this.writableFinished || request === undefined) return
  try {
    request.abandoned()
  } catch (error) {
    request.gateway.faulted(error, 'the end of a connection could not be handled')
  }
}

/**
 * Counts a client's tool call that has ended. A call of `call_tool` counts as a call of the tool that it names, steps
 * of workflows don't count, and a call with rounds of input counts once. Callers choose the names, so a name that is
 * not in the catalog is not recorded.
 */
function countUsage(usage: Usage, request: EndpointExchange, { result }: Outcome): void {
  const { message, caller, session, backend = '', startedAt, isPart } = request
  if (message?.method !== 'tools/call' || isPart || message.isContinued) return
  const tool = request.used ?? shownName(request, message)
  if (tool === CALL_TOOL && !request.isInner) return
  const client = readClientName(message) ?? session?.record.notes?.[CLIENT_NOTE] ?? ''
  const outcome = result === 'ok' && request.hasErrorResult ? 'error' : result
  usage.count(caller, { client, tool, backend, outcome }, performance.now() - startedAt)
}

function shownName({ view: { catalog } }: EndpointExchange, message: Message): string {
  const name = message.parameter('name') ?? ''
  return catalog.routes.has(name) || catalog.composites.has(name) ? name : ''
}
