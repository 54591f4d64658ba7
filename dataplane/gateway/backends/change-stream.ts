import type { Dispatcher } from 'undici'
import { changedBy } from '../aggregation/list-kind.ts'
import { isObject } from '../mcp/message.ts'
import { requestText } from '../mcp/rpc-text.ts'
import { type SseReceiver, SseSplitter } from '../mcp/sse-splitter.ts'
import type { Backend } from './backend.ts'
import { ownMeta } from './era.ts'
import type { Opened } from './link.ts'

/** Largest message on such a stream; a notice is far below it. */
const LARGEST = 64 * 1024

/**
 * The stream on which a backend says unasked that its lists have changed: the GET stream of the gateway's own session
 * in the legacy era, a subscription in the modern one. Opened only where the backend has promised such notices, and
 * never again in the same session where it then refuses the stream: retrying that would be a storm.
 */
export class ChangeStream implements Dispatcher.DispatchHandler, SseReceiver {
  readonly #backend: Backend
  readonly #onChange: () => void
  #controller: Dispatcher.DispatchController | undefined
  #splitter: SseSplitter | undefined
  #event: Buffer[] = []
  #size = 0
  #open = false
  #refusedIn: Opened | 'modern' | undefined
  #stopped = false

  constructor(backend: Backend, onChange: () => void) {
    this.#backend = backend
    this.#onChange = onChange
  }

  /** Opens the stream where it should be open and isn't. */
  keep(): void {
    const { era, house } = this.#backend
    if (this.#open || this.#stopped || era === undefined) return
    const place = era.era === 'modern' ? 'modern' : house.opened
    const capabilities = era.era === 'modern' ? era.capabilities : house.opened?.capabilities
    const promised = promisedBy(capabilities ?? {})
    if (place === undefined || place === this.#refusedIn || promised.length === 0) return
    this.#open = true
    this.#splitter = new SseSplitter(this)
    this.#refusedIn = place
    if (place === 'modern') this.#subscribe(promised)
    else this.#listen()
  }

  #subscribe(promised: readonly string[]): void {
    const { dispatcher, path, client } = this.#backend
    const headers = this.#backend.modernHeaders('subscriptions/listen')
    const notifications = Object.fromEntries(promised.map((capability) => [`${capability}ListChanged`, true]))
    const params = { notifications, _meta: ownMeta(client) }
    const body = requestText('portico-listen', 'subscriptions/listen', params)
    dispatcher.dispatch({ path, method: 'POST', headers, body }, this)
  }

  #listen(): void {
    const { dispatcher, path, house } = this.#backend
    const headers = house.headers()
    headers[headers.indexOf('accept') + 1] = 'text/event-stream'
    dispatcher.dispatch({ path, method: 'GET', headers }, this)
  }

  stop(): void {
    this.#stopped = true
    this.#controller?.abort(new Error('no longer of interest'))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#stopped) controller.abort(new Error('no longer of interest'))
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status !== 200 || !String(headers['content-type']).startsWith('text/event-stream'))
      controller.abort(new Error('no stream'))
    else this.#refusedIn = undefined
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#splitter?.push(chunk)
  }

  onResponseEnd(): void {
    this.#closed()
  }

  onResponseError(): void {
    this.#closed()
  }

  #closed(): void {
    this.#open = false
    this.#controller = undefined
    this.#event = []
    this.#size = 0
  }

  onEventData(bytes: Buffer): void {
    this.#size += bytes.length
    if (this.#size <= LARGEST) this.#event.push(bytes)
  }

  onEventEnd(): void {
    const message = this.#size <= LARGEST ? parse(Buffer.concat(this.#event)) : undefined
    this.#event = []
    this.#size = 0
    if (!isObject(message)) return
    if (changedBy[String(message['method'])] !== undefined) this.#onChange()
    else if (typeof message['method'] === 'string' && message['id'] !== undefined)
      this.#backend.house.answer(message['method'], JSON.stringify(message['id']))
  }
}

/** The capabilities whose lists the backend promised to tell changes of. */
const promisedBy = (capabilities: Readonly<Record<string, unknown>>): string[] =>
  ['tools', 'prompts', 'resources'].filter((name) => {
    const capability = capabilities[name]
    return isObject(capability) && capability['listChanged'] === true
  })

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}
