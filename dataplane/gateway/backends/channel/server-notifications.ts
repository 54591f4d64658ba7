import { isObject } from '../../../../crds/shared/json.ts'
import { editObject, memberText } from '../../mcp/json.ts'
import { isId } from '../../mcp/message.ts'
import { addressee, type Participants } from './channel-client.ts'
import { wantsLogLevel } from './client-subscriptions.ts'

const SUBSCRIPTION_KEY = 'io.modelcontextprotocol/subscriptionId'

/** A notification of a server, parsed as far as it is needed, and as it came. */
interface Notification {
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
  readonly text: string
}

/** Passes a server's notification to the clients it is clearly for, with the ids that these know. */
export function passNotification(notification: Notification, participants: Participants): void {
  const { method, params, text } = notification
  const subscription = subscriptionOf(params)
  if (method === 'notifications/progress') passProgress(notification, participants)
  else if (subscription !== undefined) passToSubscription(numberOf(subscription), text, participants)
  else if (method === 'notifications/message' || method === 'notifications/cancelled') {
    const { client, exchange } = addressee(participants) ?? {}
    if (method === 'notifications/cancelled' || wantsLogLevel(client, params['level'])) exchange?.event(text)
  } else passToSubscribers(notification, participants)
}

/** JSON value of the modern era's subscription that a notification belongs to. */
function subscriptionOf({ _meta: meta }: Readonly<Record<string, unknown>>): unknown {
  return isObject(meta) ? meta[SUBSCRIPTION_KEY] : undefined
}

/** To all clients or, of a resource that has changed, to those that have subscribed to it. */
function passToSubscribers({ method, params, text }: Notification, { clients }: Participants): void {
  const uri = method === 'notifications/resources/updated' ? params['uri'] : undefined
  for (const { listening, subscribed } of clients)
    if (uri === undefined || (typeof uri === 'string' && subscribed.has(uri))) listening?.event(text)
}

function passProgress({ params, text }: Notification, { pending }: Participants): void {
  const request = pending.get(numberOf(params['progressToken']))
  if (request?.token === undefined) return
  const edited = editObject(memberText(text, 'params') as string, { progressToken: request.token })
  request.exchange?.event(editObject(text, { params: edited }))
}

/** One of our ids as a server gives it back: servers make strings of numbers. NaN where it is none. */
const numberOf = (id: unknown): number => (isId(id) ? Number(id) : Number.NaN)

/** Something for one subscription of the modern era. */
function passToSubscription(own: number, text: string, { pending }: Participants): void {
  const request = pending.get(own)
  if (request === undefined) return
  const params = memberText(text, 'params') as string
  const meta = editObject(memberText(params, '_meta') as string, { [SUBSCRIPTION_KEY]: request.id })
  request.exchange?.event(editObject(text, { params: editObject(params, { _meta: meta }) }))
}
