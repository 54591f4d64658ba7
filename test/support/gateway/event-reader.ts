import { BASE_HEADERS, modern } from './post.ts'
import type { RpcMessage } from './rpc-message.ts'

/** One server-sent event. */
export interface ReadEvent {
  readonly id: string | undefined
  /** Undefined if the event has no data. */
  readonly message: RpcMessage | undefined
}

/** Reads a stream of events as they arrive, until it ends or is closed. */
export class EventReader {
  readonly events: ReadEvent[] = []
  readonly status: number
  readonly headers: Headers
  ended = false
  readonly #leaving: AbortController
  readonly #reading: Promise<void>

  private constructor(response: Response, leaving: AbortController) {
    this.status = response.status
    this.headers = response.headers
    this.#leaving = leaving
    this.#reading = this.#read(response).catch(() => {})
  }

  /** Sends a request, and resolves when its answer begins. */
  static async open(url: string, init: RequestInit): Promise<EventReader> {
    const leaving = new AbortController()
    return new EventReader(await fetch(url, { ...init, signal: leaving.signal }), leaving)
  }

  /** Opens a session's GET stream: after the event `after`, whichever stream that belongs to, or a new one. */
  static listen(url: string, session: Readonly<Record<string, string>>, after?: string): Promise<EventReader> {
    const resuming = after === undefined ? {} : { 'last-event-id': after }
    return EventReader.open(url, { headers: { ...session, accept: 'text/event-stream', ...resuming } })
  }

  /** Opens a modern client's stream of resource updates. */
  static watch(url: string, resourceSubscriptions: readonly string[]): Promise<EventReader> {
    const { body, headers } = modern('subscriptions/listen', { notifications: { resourceSubscriptions } })
    return EventReader.open(url, { method: 'POST', headers: { ...BASE_HEADERS, ...headers }, body })
  }

  async #read({ body }: Response): Promise<void> {
    if (body === null) return
    let text = ''
    for await (const part of body.pipeThrough(new TextDecoderStream())) {
      text += part
      for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
        this.#take(text.slice(0, end))
        text = text.slice(end + 2)
      }
    }
    this.ended = true
  }

  #take(event: string): void {
    const id = /^id: (.*)$/m.exec(event)?.[1]
    const data = /^data: (.*)$/m.exec(event)?.[1]
    if (id !== undefined || data !== undefined)
      this.events.push({ id, message: data === undefined || data === '' ? undefined : JSON.parse(data) })
  }

  /** Adds the closing of the connection to the functions that run after a test. */
  leftBy(cleanups: (() => unknown)[]): this {
    cleanups.push(() => this.leave())
    return this
  }

  /** The messages of events that have one. */
  get messages(): readonly RpcMessage[] {
    return this.events.flatMap(({ message }) => (message === undefined ? [] : [message]))
  }

  /** The payload of each message: a log message's data, the text of a result, or an error's message. */
  get texts(): unknown[] {
    return this.messages.map(({ params, result, error }) => params?.data ?? result?.content[0].text ?? error?.message)
  }

  get lastId(): string {
    const id = this.events.findLast((event) => event.id !== undefined)?.id
    if (id === undefined) throw new Error('no event had an id')
    return id
  }

  /** Closes the connection. */
  async leave(): Promise<void> {
    this.#leaving.abort()
    await this.#reading
  }
}
