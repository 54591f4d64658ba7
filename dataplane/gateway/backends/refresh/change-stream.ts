import { isObject } from '../../../../crds/settings/json.ts'
import { parseBytes } from '../../mcp/json.ts'
import { isId } from '../../mcp/message.ts'
import { FIRST_OWN_ID, requestText } from '../../mcp/rpc-text.ts'
import type { Backend } from '../backend/backend.ts'
import { isPassing } from '../connection/failure.ts'
import { openStream } from '../connection/http.ts'
import { MessageStream } from '../connection/message-stream.ts'
import { isListChanged } from '../lists/list-kind.ts'
import { type Era, ownMeta } from '../session/era.ts'

/**
 * Keeps the stream on which a backend reports that its lists have changed: in the legacy era the GET stream of the
 * gateway's own session, in the modern era a subscription. It is opened only if the backend has declared such
 * notifications. If the backend then refuses it, it is opened again only after the next probe of the era, because
 * retries in between would flood the backend.
 */
export class ChangeStream {
  readonly #backend: Backend
  readonly #onChange: () => void
  #subscription: MessageStream | undefined
  /** The result of the era's probe under which the backend refused the stream. */
  #refusedAt: Era | undefined
  #stopped = false

  constructor(backend: Backend, onChange: () => void) {
    this.#backend = backend
    this.#onChange = onChange
  }

  /** Opens the stream if it should be open and is not. */
  keep(): void {
    const { era, ownSession } = this.#backend
    if (this.#stopped || era === undefined) return
    if (era.era === 'modern') this.#subscribe(listDeclared(era.capabilities))
    else if (listDeclared(ownSession.opened?.capabilities ?? {}).length > 0) ownSession.inbox.subscribe(this.#take)
  }

  #subscribe(declared: readonly string[]): void {
    const { era, path, client, log, share } = this.#backend
    if (declared.length === 0 || this.#subscription !== undefined || this.#refusedAt === era) return
    const headers = this.#backend.modernHeaders('subscriptions/listen')
    const notifications = Object.fromEntries(declared.map((capability) => [`${capability}ListChanged`, true]))
    const params = { notifications, _meta: ownMeta(client) }
    const body = requestText(FIRST_OWN_ID, 'subscriptions/listen', params)
    this.#subscription = new MessageStream({
      log,
      share,
      onMessage: this.#take,
      onEnd: (refused) => {
        this.#subscription = undefined
        this.#backend.legacySupport.forget()
        if (refused !== undefined && !isPassing(refused)) this.#refusedAt = era
      },
    })
    openStream(this.#backend, { path, method: 'POST', headers, body }, this.#subscription)
  }

  stop(): void {
    this.#stopped = true
    this.#subscription?.stop()
    this.#backend.ownSession.inbox.unsubscribe()
  }

  readonly #take = (bytes: Buffer): void => {
    const message = parseBytes(bytes)
    if (!isObject(message)) return
    const { method, id } = message
    if (isListChanged(method)) this.#onChange()
    else if (method !== undefined && isId(id)) this.#backend.ownSession.answer(method, JSON.stringify(id))
  }
}

/** Returns the capabilities whose lists the backend has promised to report as changed. */
const listDeclared = (capabilities: Readonly<Record<string, unknown>>): string[] =>
  ['tools', 'prompts', 'resources'].filter((name) => {
    const capability = capabilities[name]
    return isObject(capability) && capability['listChanged'] === true
  })
