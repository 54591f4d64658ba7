import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { Dispatcher } from 'undici'
import { isObject } from '../../../../crds/settings/json.ts'
import { ALL_CAPABILITIES } from '../../mcp/client-capabilities.ts'
import { isModernRefusal, MODERN } from '../../mcp/eras.ts'
import { editObject, memberText } from '../../mcp/json.ts'
import { notificationText, resultText } from '../../mcp/rpc-text.ts'
import { BackendFailure, connectionFailure } from '../connection/failure.ts'
import type { OpenChannel } from './channel.ts'
import { applySubscription, type ChannelClient, exceedsSubscriptions } from './channel-client.ts'
import { Conversation } from './conversation.ts'
import { Exchange } from './exchange.ts'

interface ChannelDispatcherOptions {
  readonly open: OpenChannel
  /** True if all sessions share one channel, as with a process. False if each session opens its own. */
  readonly shared: boolean
  readonly log: Logger
  /** Called when all channels have ended for good. */
  release?(): Promise<void>
}

/** A server that does not answer the probe within this time speaks the legacy era (2026-07-28, stdio). */
const PROBE_MS = 2_000
/** A server that does not answer `initialize` within this time is restarted. */
const INITIALIZE_MS = 60_000
const INITIALIZED = notificationText('notifications/initialized')
/**
 * The capabilities that are declared to a shared server. Each of its requests is then forwarded to one client, and
 * refused if that client has not declared the capability.
 */
const SHARED_CAPABILITIES = JSON.stringify(ALL_CAPABILITIES)

interface ChannelSession {
  readonly conversation: Conversation
  readonly client: ChannelClient
}

/** A message as its sender has posted it. */
interface Posted {
  readonly text: string
  /** JSON text. */
  readonly id: string | undefined
  readonly method: string | undefined
  readonly params: Readonly<Record<string, unknown>>
  /** A flat list. */
  readonly headers: readonly string[]
}

/**
 * Makes a server on a channel behave like one behind Streamable HTTP, including sessions, so that callers of backends
 * need no second code path. When the channel ends, all of its sessions are lost, as when an HTTP server restarts.
 */
export class ChannelDispatcher {
  readonly #options: ChannelDispatcherOptions
  readonly #sessions = new Map<string, ChannelSession>()
  readonly #conversations = new Set<Conversation>()
  #current: Conversation | undefined
  #opening: Promise<Conversation> | undefined
  /** True once an answer, silence or an exit has shown that the server uses the legacy era. */
  #probedLegacy = false
  #closing = false
  #drained: (() => void) | undefined

  constructor(options: ChannelDispatcherOptions) {
    this.#options = options
    // Sessions with separate channels use HTTP+SSE, which is older than the modern era.
    this.#probedLegacy = !options.shared
  }

  dispatch(
    { method, headers, body }: Pick<Dispatcher.DispatchOptions, 'method' | 'headers' | 'body' | 'path'>,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    const exchange = new Exchange(handler)
    this.#serve(exchange, method, headers as readonly string[], body).catch((error) =>
      exchange.fail(connectionFailure(error)),
    )
    return true
  }

  /** Does the same as `dispatch`, because streams share the channel with all other requests. */
  stream(...request: Parameters<ChannelDispatcher['dispatch']>): boolean {
    return this.dispatch(...request)
  }

  async #serve(exchange: Exchange, method: string, headers: readonly string[], body: unknown): Promise<void> {
    if (this.#closing) throw new BackendFailure('backend_unavailable', 'the backend is being closed')
    const session = this.#sessions.get(header(headers, 'mcp-session-id') ?? '')
    if (method === 'POST') {
      const posted = read(String(body), headers)
      const modern = header(headers, 'mcp-protocol-version') === MODERN
      if (modern) await this.#modern(exchange, posted)
      else if (posted.method === 'initialize') await this.#initialize(exchange, posted)
      else if (session === undefined) refuseSession(exchange, posted.id)
      else this.#legacy(exchange, posted, session)
    } else if (session === undefined) refuseSession(exchange, undefined)
    else if (method === 'GET') listen(exchange, session.client)
    else {
      this.#end(session)
      exchange.answer(200)
    }
  }

  async #modern(exchange: Exchange, { text, id, method, headers }: Posted): Promise<void> {
    if (this.#probedLegacy) {
      refuseModern(exchange, id)
      return
    }
    const conversation = await this.#shared()
    if (id === undefined) {
      conversation.send(text)
      exchange.answer(202)
      return
    }
    const probe = method === 'server/discover' ? method : undefined
    if (probe !== undefined) this.#watchProbe(exchange, conversation, id)
    conversation.forward({ text, id, method: probe, client: undefined, exchange, headers })
  }

  /** Treats silence as a sign of the legacy era, and so an exit, because some servers exit on an unknown method. */
  #watchProbe(exchange: Exchange, conversation: Conversation, id: string): void {
    const legacy = () => {
      conversation.onEnding.delete(legacy)
      if (exchange.over) return
      this.#probedLegacy = true
      refuseModern(exchange, id)
    }
    const timer = setTimeout(legacy, PROBE_MS)
    timer.unref()
    conversation.onEnding.add(legacy)
  }

  async #initialize(exchange: Exchange, { text, id, params, headers }: Posted): Promise<void> {
    const conversation = this.#options.shared ? await this.#shared() : await this.#open(headers)
    if (conversation.initialized === undefined) {
      const given = memberText(text, 'params') ?? '{}'
      const params = this.#options.shared ? editObject(given, { capabilities: SHARED_CAPABILITIES }) : given
      conversation.initialized = initialize(conversation, params)
    }
    // A separate channel without a session would stay open, because the end of a session closes it.
    const answer = await conversation.initialized.catch((error) => {
      if (!this.#options.shared) conversation.close()
      throw error
    })
    if (exchange.over) {
      if (!this.#options.shared) conversation.close()
      return
    }
    if (memberText(answer, 'result') === undefined) {
      this.#refusedSession(conversation, answer)
      exchange.answer(200, editObject(answer, { id }))
      return
    }
    // A conversation has one era, which is not probed again after `initialize`.
    this.#probedLegacy = true
    const client: ChannelClient = {
      id: randomBytes(12).toString('base64url'),
      capabilities: isObject(params['capabilities']) ? params['capabilities'] : {},
      subscribed: new Set(),
      level: undefined,
      listening: undefined,
    }
    conversation.clients.add(client)
    this.#sessions.set(client.id, { conversation, client })
    exchange.answer(200, editObject(answer, { id }), {
      'content-type': 'application/json',
      'mcp-session-id': client.id,
    })
  }

  /**
   * Continues in the modern era with a server that supports no other, even if its answer to the probe is late or
   * pending.
   */
  #refusedSession(conversation: Conversation, answer: string): void {
    if (conversation.isModern || isModernRefusal(answer)) {
      conversation.initialized = undefined
      this.#probedLegacy = false
    } else conversation.close()
  }

  #legacy(
    exchange: Exchange,
    { text, id, method, params, headers }: Posted,
    { conversation, client }: ChannelSession,
  ): void {
    if (method !== undefined && id !== undefined) {
      if (exceedsSubscriptions(client, method, params)) {
        exchange.answer(200, tooManySubscriptions(id))
        return
      }
      const others = [...conversation.clients].filter((other) => other !== client)
      const forwarded = applySubscription(client, others, { text, method, params })
      if (forwarded === undefined) exchange.answer(200, resultText(id, '{}'))
      else conversation.forward({ text: forwarded, id, method, client, exchange, headers })
      return
    }
    if (id !== undefined) conversation.answer(client, id, text)
    else if (method === 'notifications/cancelled') conversation.cancel(client, params['requestId'], text)
    else if (method !== 'notifications/initialized') conversation.send(text)
    exchange.answer(202)
  }

  #end({ conversation, client }: ChannelSession): void {
    this.#sessions.delete(client.id)
    conversation.remove(client)
    if (!this.#options.shared) conversation.close()
  }

  #shared(): Promise<Conversation> {
    if (this.#current !== undefined) return Promise.resolve(this.#current)
    this.#opening ??= this.#open([])
      .then((conversation) => {
        if (!conversation.closed) this.#current = conversation
        return conversation
      })
      .finally(() => {
        this.#opening = undefined
      })
    return this.#opening
  }

  async #open(headers: readonly string[]): Promise<Conversation> {
    const conversation = await Conversation.open(this.#options.open, headers, this.#options.log)
    this.#conversations.add(conversation)
    conversation.onClosed = () => this.#closed(conversation)
    if (conversation.closed) this.#closed(conversation)
    if (this.#closing) conversation.close()
    return conversation
  }

  #closed(conversation: Conversation): void {
    this.#conversations.delete(conversation)
    if (this.#current === conversation) this.#current = undefined
    for (const [id, session] of this.#sessions) if (session.conversation === conversation) this.#sessions.delete(id)
    if (this.#conversations.size === 0) this.#drained?.()
  }

  /** Ends all channels once no request is pending. Resolves when they have ended. */
  async close(): Promise<void> {
    this.#closing = true
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#drained = resolve
    for (const conversation of this.#conversations) conversation.closeWhenIdle()
    if (this.#conversations.size > 0) await promise
    await this.#options.release?.()
  }

  async destroy(): Promise<void> {
    this.#closing = true
    for (const conversation of this.#conversations) conversation.close()
  }
}

/** Sends `initialize` and completes the handshake. Ends the channel if that takes too long. */
async function initialize(conversation: Conversation, params: string): Promise<string> {
  // A server that already serves clients may be busy with a call, so the timeout does not apply to it.
  const timer = setTimeout(() => conversation.isModern || conversation.isDoubted || conversation.close(), INITIALIZE_MS)
  timer.unref()
  try {
    const answer = await conversation.request('initialize', params)
    if (memberText(answer, 'result') !== undefined) conversation.send(INITIALIZED)
    return answer
  } finally {
    clearTimeout(timer)
  }
}

function listen(exchange: Exchange, client: ChannelClient): void {
  client.listening?.end()
  client.listening = exchange
  exchange.onAborted = () => {
    if (client.listening === exchange) client.listening = undefined
  }
  exchange.stream()
}

const refuseSession = (exchange: Exchange, id: string | undefined) =>
  exchange.answer(404, `{"jsonrpc":"2.0","id":${id ?? 'null'},"error":{"code":-32001,"message":"Session not found"}}`)

const refuseModern = (exchange: Exchange, id: string | undefined) =>
  exchange.answer(400, `{"jsonrpc":"2.0","id":${id ?? 'null'},"error":{"code":-32000,"message":"No session"}}`)

const tooManySubscriptions = (id: string) =>
  `{"jsonrpc":"2.0","id":${id},"error":{"code":-32603,"message":"Too many resources are subscribed to."}}`

function read(text: string, headers: readonly string[]): Posted {
  const value = JSON.parse(text) as Record<string, unknown>
  const { method, params } = value
  return {
    text,
    id: memberText(text, 'id'),
    method: typeof method === 'string' ? method : undefined,
    params: isObject(params) ? params : {},
    headers,
  }
}

function header(headers: readonly string[], name: string): string | undefined {
  for (let at = 0; at < headers.length; at += 2) if (headers[at]?.toLowerCase() === name) return headers[at + 1]
  return undefined
}
