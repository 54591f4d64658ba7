import { isObject } from '../../../../crds/shared/json.ts'
import { editObject, memberText } from '../../mcp/json.ts'
import { isId } from '../../mcp/message.ts'
import { concerned, type Present } from './party.ts'
import { wantsLevel } from './wishes.ts'

const SUBSCRIPTION_KEY = 'io.modelcontextprotocol/subscriptionId'

/** A notification of a server, parsed as far as it is needed, and as it came. */
interface Notification {
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
  readonly text: string
}

/** Passes a server's notification to who it clearly concerns, with the ids that these know. */
export function passNotification(notification: Notification, present: Present): void {
  const { method, params, text } = notification
  if (method === 'notifications/progress') {
    passProgress(notification, present)
    return
  }
  const meta = params['_meta']
  const subscription = isObject(meta) ? meta[SUBSCRIPTION_KEY] : undefined
  if (subscription !== undefined) passToSubscription(numberOf(subscription), text, present)
  else if (method === 'notifications/message' || method === 'notifications/cancelled') {
    const { party, exchange } = concerned(present) ?? {}
    if (method === 'notifications/cancelled' || wantsLevel(party, params['level'])) exchange?.event(text)
  } else {
    const uri = method === 'notifications/resources/updated' ? params['uri'] : undefined
    for (const { listening, subscribed } of present.parties)
      if (uri === undefined || (typeof uri === 'string' && subscribed.has(uri))) listening?.event(text)
  }
}

function passProgress({ params, text }: Notification, { pending }: Present): void {
  const asker = pending.get(numberOf(params['progressToken']))
  if (asker?.token === undefined) return
  const edited = editObject(memberText(text, 'params') as string, { progressToken: asker.token })
  asker.exchange?.event(editObject(text, { params: edited }))
}

/** One of our ids as a server gives it back: servers make strings of numbers. NaN where it is none. */
const numberOf = (id: unknown): number => (isId(id) ? Number(id) : Number.NaN)

/** Something for one subscription of the modern era. */
function passToSubscription(own: number, text: string, { pending }: Present): void {
  const asker = pending.get(own)
  if (asker === undefined) return
  const params = memberText(text, 'params') as string
  const meta = editObject(memberText(params, '_meta') as string, { [SUBSCRIPTION_KEY]: asker.id })
  asker.exchange?.event(editObject(text, { params: editObject(params, { _meta: meta }) }))
}
