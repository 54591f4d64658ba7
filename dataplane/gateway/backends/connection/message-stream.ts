import type { Logger } from 'pino'
import type { Dispatcher } from 'undici'
import { type BodyDecoder, decoderFor } from '../../../net/body-decoder.ts'
import type { Share } from '../../../server/budget.ts'
import { mendUnasked } from '../../mcp/answer-mender.ts'
import { type SseReceiver, SseSplitter } from '../../mcp/sse-splitter.ts'
import { type HeadersRead, isOfType, isSuccess } from './http.ts'
import { UnfinishedEvent } from './unfinished-event.ts'

export interface MessageStreamOptions {
  /** Handles one event's data. If it throws, only that message is lost. */
  onMessage(bytes: Buffer): void
  /** Returns the size of the largest message that is taken; absent: 1 MiB. */
  mostBytes?(): number
  onBegin?(): void
  /** Reports the end of a stream, or its refusal before it began, with the HTTP status in `refused` (0: no answer). */
  onEnd(refused: number | undefined): void
  /** Logs the errors that the other callbacks throw. */
  readonly log: Pick<Logger, 'error'>
  /** The backend's share: counts the bytes of an incomplete event. */
  readonly share: Share
}

/** The largest message that is accepted from such a stream. A larger one is dropped. */
const LARGEST = 1024 * 1024

/** A stream of messages that belong to none of the gateway's requests, until one side ends it. */
export class MessageStream implements Dispatcher.DispatchHandler, SseReceiver {
  readonly #options: MessageStreamOptions
  readonly #splitter = new SseSplitter(this)
  #controller: Dispatcher.DispatchController | undefined
  readonly #event: UnfinishedEvent
  /** True while the bytes of the current event are dropped. */
  #isDropped = false
  /** Undefined once the stream has begun. */
  #refused: number | undefined = 0
  #over = false
  /** Set if the body is compressed although that was not requested. */
  #decoder: BodyDecoder | undefined

  constructor(options: MessageStreamOptions) {
    this.#options = options
    this.#event = new UnfinishedEvent(options.share)
  }

  /** The id of the last event that had one. The next stream can continue after it. */
  get lastEventId(): string | undefined {
    return this.#splitter.lastEventId
  }

  /** True if an event with a message has arrived. */
  hasSpoken = false

  /** The pause before the next stream, if the backend has set one. */
  get retryMs(): number | undefined {
    return this.#splitter.retryMs
  }

  stop(): void {
    this.#over = true
    this.#drop()
    this.#decoder?.stop()
    this.#controller?.abort(new Error('the stream is no longer needed'))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#over) controller.abort(new Error('the stream is no longer needed'))
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: HeadersRead): void {
    if (isSuccess(status) && isOfType(headers['content-type'], 'text/event-stream')) {
      this.#refused = undefined
      this.#guard(() => {
        this.#decoder = decoderFor(headers['content-encoding'], {
          share: this.#options.share,
          drained: () => controller.resume(),
          data: (chunk) => this.#read(chunk),
          end: () => this.#end(),
          failed: (error) => controller.abort(error),
        })
      })
      this.#guard(() => this.#options.onBegin?.())
    } else {
      this.#refused = status
      controller.abort(new Error('the answer is no stream'))
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#decoder === undefined) this.#read(chunk)
    else if (!this.#decoder.write(chunk)) controller.pause()
  }

  #read(chunk: Buffer): void {
    if (this.#over) return
    this.#splitter.push(chunk)
    if (this.#over || !this.#event.settle()) this.#drop()
  }

  onResponseEnd(): void {
    if (this.#decoder === undefined) this.#end()
    else this.#decoder.end()
  }

  onResponseError(): void {
    this.#end()
  }

  #end(): void {
    this.#decoder?.stop()
    this.#drop()
    if (this.#over) return
    this.#over = true
    this.#guard(() => this.#options.onEnd(this.#refused))
  }

  /** Catches errors of the callbacks, which must not reach the reader of the socket. */
  #guard(notify: () => void): void {
    try {
      notify()
    } catch (error) {
      this.#options.log.error({ err: error }, 'an unsolicited message of a backend could not be processed')
    }
  }

  onEventData(bytes: Buffer): void {
    if (this.#isDropped) return
    this.#event.push(bytes)
    if (this.#event.size > LARGEST && this.#event.size > (this.#options.mostBytes?.() ?? LARGEST)) this.#drop()
  }

  #drop(): void {
    this.#isDropped = true
    this.#event.take()
  }

  onEventEnd(): void {
    const message = this.#event.take()
    this.#isDropped = false
    this.hasSpoken ||= message.length > 0
    if (message.length > 0 && !this.#over) this.#guard(() => this.#options.onMessage(mendUnasked(message)))
  }
}
