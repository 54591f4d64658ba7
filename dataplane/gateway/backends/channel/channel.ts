import { AnswerScanner } from '../../mcp/answer-scanner.ts'
import { BackendFailure } from '../connection/failure.ts'

/** Carries whole JSON-RPC messages both ways, to a server that does not answer HTTP requests one by one. */
export interface Channel {
  /**
   * Sends one message, with the headers of who sends it where the channel has any. Throws, or rejects, with a
   * BackendFailure where that can't be.
   */
  send(text: string, headers?: readonly string[]): void | Promise<void>
  /** Ends it; `closed` is called afterwards. */
  close(): void
}

/** Takes what comes on a channel. */
export interface ChannelReceiver {
  /** One message, or what stands in the place of one: servers print other things too. */
  message(text: string): void
  /** A message that was too large to be taken. */
  tooLarge(message: DroppedMessage): void
  /** The channel is over, for good. Called once, and never before the channel was open. */
  closed(reason: BackendFailure): void
}

/**
 * Opens a channel; `headers` is a flat list, those of the request that it is opened for. Rejects with a BackendFailure
 * where there is none now.
 */
export type OpenChannel = (receiver: ChannelReceiver, headers: readonly string[]) => Promise<Channel>

const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 30_000
/** What held for so long was no failed start. */
const STEADY_MS = 10_000

/**
 * Reads a message that is too large to be taken to its end, for what it is and for its id: many servers write an
 * answer's id behind the result.
 */
export class DroppedMessage {
  readonly #scanner = new AnswerScanner()

  scan(bytes: Buffer): void {
    this.#scanner.scan(bytes, [])
  }

  /** JSON text of the id, where it is a JSON-RPC answer. */
  get answerTo(): string | undefined {
    return this.#scanner.complete && this.#scanner.isAnswer ? this.#scanner.id : undefined
  }

  /** JSON text of the id, where it is a request. */
  get requestId(): string | undefined {
    return this.#scanner.complete && this.#scanner.hasMethod ? this.#scanner.id : undefined
  }
}

/**
 * Opens a channel at once after one that held, otherwise with growing pauses. Within a pause an attempt fails at once,
 * so that no request waits for a server that keeps dying.
 */
export function withPauses(open: OpenChannel): OpenChannel {
  let pauseMs = 0
  let notBefore = 0
  let lastReason = ''

  function pause({ message }: Error): void {
    pauseMs = Math.min(Math.max(pauseMs * 2, FIRST_PAUSE_MS), LONGEST_PAUSE_MS)
    notBefore = performance.now() + pauseMs
    lastReason = message
  }

  return async function openUnlessPaused(receiver, headers) {
    const left = Math.ceil(notBefore - performance.now())
    if (left > 0) throw new BackendFailure('backend_unavailable', `${lastReason}; not tried again for ${left} ms`)
    const startedAt = performance.now()
    try {
      return await open(
        {
          message: (text) => receiver.message(text),
          tooLarge: (message) => receiver.tooLarge(message),
          closed(reason) {
            if (performance.now() - startedAt < STEADY_MS) pause(reason)
            else pauseMs = 0
            receiver.closed(reason)
          },
        },
        headers,
      )
    } catch (error) {
      pause(error as Error)
      throw error
    }
  }
}
