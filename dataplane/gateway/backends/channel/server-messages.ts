import { isObject } from '../../../../crds/settings/json.ts'
import { editObject, memberText } from '../../mcp/json.ts'
import { isId } from '../../mcp/message.ts'
import { addressee, type ChannelClient, type Participants, wantsLogLevel } from './channel-client.ts'

/** The most open requests. Beyond it the oldest is refused, because some are never answered while the client stays. */
const MOST_OPEN = 256

/** The client capability that each request of a server requires. */
const needed: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'roots/list': 'roots',
  'sampling/createMessage': 'sampling',
}

const SUBSCRIPTION_KEY = 'io.modelcontextprotocol/subscriptionId'

/** A notification of a server, parsed as far as needed, with its original text. */
interface Notification {
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
  readonly text: string
}

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
    const capability = Object.hasOwn(needed, method) ? needed[method] : undefined
    const { client, exchange, isCall } = addressee(this.#participants) ?? {}
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
  refuseAllOf(client: ChannelClient): void {
    for (const [id, addressed] of this.#open) if (addressed === client) this.refuse(id, 'The client has gone.')
  }
}

/** Passes a server's notification to the clients that it clearly is for, with their own ids. */
export function passNotification(notification: Notification, participants: Participants): void {
  const { method, params, text } = notification
  const subscription = readSubscription(params)
  if (method === 'notifications/progress') passProgress(notification, participants)
  else if (subscription !== undefined) passToSubscription(readNumber(subscription), text, participants)
  else if (method === 'notifications/message' || method === 'notifications/cancelled') {
    const { client, exchange } = addressee(participants) ?? {}
    if (method === 'notifications/cancelled' || wantsLogLevel(client, params['level'])) exchange?.event(text)
  } else passToSubscribers(notification, participants)
}

/** Returns the JSON value of the modern subscription that a notification belongs to. */
function readSubscription({ _meta: meta }: Readonly<Record<string, unknown>>): unknown {
  return isObject(meta) ? meta[SUBSCRIPTION_KEY] : undefined
}

/** Passes a notification to all clients or, if a resource has changed, to its subscribers. */
function passToSubscribers({ method, params, text }: Notification, { clients }: Participants): void {
  const uri = method === 'notifications/resources/updated' ? params['uri'] : undefined
  for (const { listening, subscribed } of clients)
    if (uri === undefined || (typeof uri === 'string' && subscribed.has(uri))) listening?.event(text)
}

function passProgress({ params, text }: Notification, { pending }: Participants): void {
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

/** Passes a notification to one subscription of the modern era. */
function passToSubscription(own: number, text: string, { pending }: Participants): void {
  const request = pending.get(own)
  if (request === undefined) return
  const params = memberText(text, 'params') as string
  const meta = editObject(memberText(params, '_meta') as string, { [SUBSCRIPTION_KEY]: request.id })
  request.exchange?.event(editObject(text, { params: editObject(params, { _meta: meta }) }))
}
