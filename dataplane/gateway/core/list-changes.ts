import { memoize } from '../../../crds/settings/json.ts'
import type { Caller } from '../../identity/caller.ts'
import type { Authorizer } from '../access/authorizer.ts'
import type { Catalogs } from '../access/visible-lists.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { ListKind } from '../backends/lists/list-kind.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import type { Sessions } from '../sessions/sessions.ts'

/** The items at one time, and the policies that determine which of them callers see. */
export interface Shown extends Catalogs {
  readonly authorizer: Authorizer | undefined
}

export const toShown = ({ catalog, promptsAndResources }: Catalogs, authorizer: Shown['authorizer']): Shown => ({
  catalog,
  promptsAndResources,
  authorizer,
})

const form = { era: 'legacy', withApps: true } as const
const kindsByList: Readonly<Record<ChangedList, readonly ListKind[]>> = {
  tools: ['tools'],
  prompts: ['prompts'],
  resources: ['resources', 'templates', 'skills'],
}

const findBase = ({ catalog, promptsAndResources }: Catalogs, kind: ListKind): Buffer =>
  kind === 'tools' ? catalog.legacyList : promptsAndResources.lists[kind].legacy

/** Returns the lists that may look different to some caller. */
function changedLists(before: Shown | undefined, after: Shown): readonly ChangedList[] {
  const lists = Object.keys(kindsByList) as ChangedList[]
  if (before === undefined || before.authorizer !== after.authorizer) return lists
  return lists.filter((list) => kindsByList[list].some((kind) => !findBase(before, kind).equals(findBase(after, kind))))
}

/** Tells whether a caller sees a difference in a list. Changes of items that it may not see are not notified. */
async function looksDifferent(list: ChangedList, before: Shown, after: Shown, caller: Caller): Promise<boolean> {
  const readShown = async (shown: Shown, kind: ListKind): Promise<Buffer> =>
    shown.authorizer === undefined
      ? findBase(shown, kind)
      : shown.authorizer.lists.get(shown.authorizer.principalOf(caller), kind, shown, form)
  for (const kind of kindsByList[list]) {
    const [one, other] = await Promise.all([readShown(before, kind), readShown(after, kind)])
    if (!one.equals(other)) return true
  }
  return false
}

/** The clients that want to be notified of changes. */
interface Audience {
  readonly sessions: Pick<Sessions, 'openStreams'>
  readonly listeners: Listeners
  /** The views of callers with own backends. */
  readonly views: { known(binding: string): Catalogs }
  faulted(error: unknown, what: string): void
}

/**
 * Notifies the clients for whom a list has changed. With `binding`: only the clients of this caller, whose own lists
 * they are.
 */
export function notifyOfChanges(audience: Audience, before: Shown, after: Shown, binding?: string): void {
  const whole: Seen = [before, after]
  notifyEach(audience, (of) => {
    if (binding !== undefined && of.binding !== binding) return undefined
    if (before.authorizer === after.authorizer) return whole
    // Changed policies also affect a caller's own unchanged lists.
    const own = audience.views.known(of.binding)
    return own.catalog === after.catalog ? whole : [toShown(own, before.authorizer), toShown(own, after.authorizer)]
  })
}

/** The items that a caller saw before a change (undefined if they were dropped), and those that it sees now. */
export type Seen = readonly [before: Shown | undefined, after: Shown]

/** Returns what a client's caller saw and sees; undefined if nothing has changed for it. */
export type SeenBy = (of: Pick<Listening, 'caller' | 'binding'>) => Seen | undefined

/** Notifies the clients for whom a list has changed, if callers see different backends. */
export function notifyEach(audience: Pick<Audience, 'sessions' | 'listeners' | 'faulted'>, seenBy: SeenBy): void {
  // Comparing long lists takes long, so it is done once for all clients that have seen the same.
  const changed = memoize(([before, after]: Seen) => changedLists(before, after))
  const tell = (of: Parameters<SeenBy>[0], notify: (list: ChangedList) => void): void => {
    const seen = seenBy(of)
    if (seen === undefined) return
    const [before, after] = seen
    for (const list of changed(seen)) {
      if (before === undefined || (before.authorizer === undefined && after.authorizer === undefined)) notify(list)
      else
        looksDifferent(list, before, after, of.caller)
          .then((isDifferent) => isDifferent && notify(list))
          .catch((error) => audience.faulted(error, 'a change of a list is not notified'))
    }
  }
  for (const stream of audience.sessions.openStreams)
    tell(stream, (list) => stream.send(notificationText(`notifications/${list}/list_changed`)))
  for (const listener of audience.listeners.all) tell(listener, (list) => listener.changed(list))
}

export type ChangedList = 'tools' | 'prompts' | 'resources'

/** The stream of a modern client that listens. */
export interface Listening {
  readonly caller: Caller
  readonly binding: string
  /** Notifies the client that a list has changed, if it has subscribed to that. */
  changed(list: ChangedList): void
  watches(backend: Backend): boolean
  heartbeat(): void
  /** Ends the stream from our side. */
  end(): void
}

/** The modern clients that listen to changes (`subscriptions/listen`). */
export class Listeners {
  readonly #open = new Set<Listening>()

  add(listener: Listening): void {
    this.#open.add(listener)
  }

  delete(listener: Listening): void {
    this.#open.delete(listener)
  }

  get all(): readonly Listening[] {
    return [...this.#open]
  }

  /** Ends streams that watch resources at a backend that is gone: their clients subscribe again, at its replacement. */
  forget(backend: Backend): void {
    for (const listener of this.#open) if (listener.watches(backend)) listener.end()
  }

  keepAlive(): void {
    for (const listener of this.#open) listener.heartbeat()
  }

  end(): void {
    for (const listener of this.#open) listener.end()
  }
}
