import { requestText } from '../mcp/rpc-text.ts'
import type { Backend } from './backend.ts'
import { ownMeta } from './era.ts'
import { isPassing } from './failure.ts'
import { MessageStream } from './message-stream.ts'
import { parse, type ResourceWatch, updatedUri } from './resource-watch.ts'

const RETRY_MS = 2_000
/** Watches that begin together become one request. */
const GATHER_MS = 10

type Told = (uri: string) => void

/**
 * All that is watched at one modern backend, on one stream for all who watch: each stream holds a connection. A
 * subscription can't be changed: what is added to it makes another one, and the old one ends when that has begun.
 */
export class SharedWatch {
  readonly #backend: Backend
  readonly #watched = new Map<string, Set<Told>>()
  #stream: MessageStream | undefined
  /** What the stream has been asked for. */
  #asked: ReadonlySet<string> = new Set()
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(backend: Backend) {
    this.#backend = backend
  }

  /** Watches some resources; `onUpdate` is told of each that has changed. */
  add(uris: readonly string[], onUpdate: Told): ResourceWatch {
    // Who watches twice is told twice, and stops each by itself.
    const told: Told = (uri) => onUpdate(uri)
    for (const uri of uris) {
      const watchers = this.#watched.get(uri) ?? new Set()
      this.#watched.set(uri, watchers.add(told))
    }
    if (uris.some((uri) => !this.#asked.has(uri))) this.#openIn(GATHER_MS)
    return { stop: () => this.#remove(uris, told) }
  }

  #remove(uris: readonly string[], told: Told): void {
    for (const uri of uris) {
      const watchers = this.#watched.get(uri)
      watchers?.delete(told)
      if (watchers?.size === 0) this.#watched.delete(uri)
    }
    // What nobody watches any more is told of until the stream is another one: that costs less than another one.
    if (this.#watched.size === 0) this.#stop()
  }

  #openIn(ms: number): void {
    if (this.#isClosed) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#open(), ms)
    this.#timer.unref()
  }

  #open(): void {
    const before = this.#stream
    const uris = [...this.#watched.keys()]
    const { dispatcher, path, client } = this.#backend
    const stream = new MessageStream({
      onMessage: (bytes) => this.#take(bytes),
      onBegin: () => before?.stop(),
      onEnd: (refused) => {
        before?.stop()
        if (this.#stream === stream) this.#ended(refused)
      },
    })
    this.#stream = stream
    this.#asked = new Set(uris)
    const params = { notifications: { resourceSubscriptions: uris }, _meta: ownMeta(client) }
    const body = requestText('portico-watch', 'subscriptions/listen', params)
    try {
      const headers = this.#backend.modernHeaders('subscriptions/listen')
      dispatcher.dispatch({ path, method: 'POST', headers, body }, stream)
    } catch {
      before?.stop()
      this.#ended(undefined)
    }
  }

  /** A stream that was refused for good would be so again, until something else is asked for. */
  #ended(refused: number | undefined): void {
    this.#stream = undefined
    if (this.#watched.size === 0) return
    if (refused === undefined || isPassing(refused)) this.#openIn(RETRY_MS)
  }

  #take(bytes: Buffer): void {
    const uri = updatedUri(parse(bytes))
    if (uri !== undefined) for (const told of this.#watched.get(uri) ?? []) told(uri)
  }

  #stop(): void {
    clearTimeout(this.#timer)
    this.#stream?.stop()
    this.#stream = undefined
    this.#asked = new Set()
  }

  /** Ends it for all. */
  close(): void {
    this.#isClosed = true
    this.#watched.clear()
    this.#stop()
  }
}
