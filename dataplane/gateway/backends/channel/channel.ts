import type { Logger } from 'pino'
import { AnswerScanner } from '../../mcp/answer-scanner.ts'
import { BackendFailure } from '../connection/failure.ts'

/** Carries whole JSON-RPC messages both ways, to a server that does not answer HTTP requests one by one. */
export interface Channel {
  /**
   * Sends one message, with the headers of its sender if the channel has headers. Throws, or rejects with, a
   * BackendFailure if it can't send.
   */
  send(text: string, headers?: readonly string[]): void | Promise<void>
  /** Ends the channel; `closed` is called afterwards. */
  close(): void
}

export interface ChannelReceiver {
  /** Receives a message, or other text in its place, because servers also print other text. */
  message(text: string): void
  /** Receives a message that exceeded the size limit. */
  tooLarge(message: DroppedMessage): void
  /** Reports that the channel has ended for good. Called once, and never before the channel was open. */
  closed(reason: BackendFailure): void
}

/**
 * Opens a channel. `headers` is a flat list: the headers of the request that the channel is opened for. Rejects with a
 * BackendFailure if no channel can be opened now.
 */
export type OpenChannel = (receiver: ChannelReceiver, headers: readonly string[]) => Promise<Channel>

const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 30_000
/** The time in milliseconds after which a channel did not fail at its start. */
const STEADY_MS = 10_000
/** The most short-lived channels in a row after which the next is opened at once. A server may exit during a call. */
const MOST_SHORT = 3

/**
 * An oversized message, of which only the kind and the id are read. It is scanned to its end, because many servers write
 * an answer's id after the result.
 */
export class DroppedMessage {
  readonly #scanner = new AnswerScanner()

  scan(bytes: Buffer): void {
    this.#scanner.scan(bytes, [])
  }

  /** JSON text of the id, if the message is a JSON-RPC answer. */
  get answerTo(): string | undefined {
    return this.#scanner.complete && this.#scanner.isAnswer ? this.#scanner.id : undefined
  }

  /** JSON text of the id, if the message is a request. */
  get requestId(): string | undefined {
    return this.#scanner.complete && this.#scanner.hasMethod ? this.#scanner.id : undefined
  }
}

/**
 * Opens a channel at once after a lasting one, and after a few short-lived ones; otherwise with growing pauses. During
 * a pause an attempt fails at once, so that no request waits for a server that keeps crashing.
 */
export function withPauses(open: OpenChannel): OpenChannel {
  let pauseMs = 0
  let notBefore = 0
  let lastReason = ''
  let short = 0

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
            if (performance.now() - startedAt >= STEADY_MS) {
              pauseMs = 0
              short = 0
            } else if (++short > MOST_SHORT) pause(reason)
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

const LF = 0x0a
const CR = 0x0d

/** The longest line that is accepted, in bytes. Even large results are much shorter. */
export const LONGEST_LINE = 16 * 1024 * 1024

interface LineReceiver {
  line(text: string): void
  /** Reports the end of an oversized line. `start` is its beginning. */
  dropped(start: string, message: DroppedMessage): void
}

const KEPT_OF_DROPPED = 200

/** Splits a stream of bytes, in chunks of any size, into lines. Bytes after the last line break are not a line. */
export class LineSplitter {
  readonly #receiver: LineReceiver
  readonly #longest: number
  #held: Buffer[] = []
  #size = 0
  /** The beginning of the line that is being dropped. */
  #start = ''
  #dropped: DroppedMessage | undefined

  constructor(receiver: LineReceiver, longest = LONGEST_LINE) {
    this.#receiver = receiver
    this.#longest = longest
  }

  push(chunk: Buffer): void {
    let from = 0
    let end = chunk.indexOf(LF)
    while (end !== -1) {
      this.#hold(chunk.subarray(from, end))
      this.#endLine()
      from = end + 1
      end = chunk.indexOf(LF, from)
    }
    if (from < chunk.length) this.#hold(chunk.subarray(from))
  }

  #hold(bytes: Buffer): void {
    if (this.#dropped !== undefined) this.#dropped.scan(bytes)
    else if (bytes.length > 0) {
      this.#held.push(bytes)
      this.#size += bytes.length
      if (this.#size > this.#longest) this.#drop()
    }
  }

  /** Stops keeping the bytes of the current line. */
  #drop(): void {
    const line = this.#take()
    this.#start = line.toString('utf8', 0, KEPT_OF_DROPPED)
    this.#dropped = new DroppedMessage()
    this.#dropped.scan(line)
  }

  #endLine(): void {
    const dropped = this.#dropped
    if (dropped !== undefined) {
      this.#dropped = undefined
      this.#receiver.dropped(this.#start, dropped)
      return
    }
    const line = this.#take()
    const end = line.at(-1) === CR ? line.length - 1 : line.length
    if (end > 0) this.#receiver.line(line.toString('utf8', 0, end))
  }

  #take(): Buffer {
    const bytes = this.#held.length === 1 ? (this.#held[0] as Buffer) : Buffer.concat(this.#held)
    this.#held = []
    this.#size = 0
    return bytes
  }
}

/** Returns the splitter of a server's output. It passes on whole messages, and logs the beginning of a dropped line. */
export const splitOutput = (receiver: ChannelReceiver, log: Logger): LineSplitter =>
  new LineSplitter({
    line: (text) => receiver.message(text),
    dropped(start, message) {
      log.warn({ start }, 'the server wrote a line that is too long; it is dropped')
      receiver.tooLarge(message)
    },
  })

/** The most bytes that a server may leave unread before it counts as hung. */
const MOST_UNREAD = 32 * 1024 * 1024

/** Throws a BackendFailure if a server has left this many bytes of its input unread and counts as hung. */
export function checkUnread(bytes: number): void {
  if (bytes > MOST_UNREAD) throw new BackendFailure('backend_unavailable', 'the server does not read its input')
}

/** Returns what `read` reads from files. Throws a BackendFailure if a file can't be read. */
export function readSecrets<T>(read: () => T): T {
  try {
    return read()
  } catch (cause) {
    throw new BackendFailure('backend_unavailable', (cause as Error).message, { cause })
  }
}
