const LF = 0x0a
const CR = 0x0d
const COLON = 0x3a
const SPACE = 0x20

/** Receives the parts of a server-sent event stream (WHATWG HTML, 9.2.6). */
export interface SseReceiver {
  /** Receives bytes of the event's data, including the line breaks between data lines. */
  onEventData(bytes: Buffer): void
  /** Reports the end of an event with data. `type` is empty if the event names none. */
  onEventEnd(type: string): void
}

const LINE_BREAK = Buffer.from('\n')
const LONGEST_WORD = 16
/** The longest event id that is stored. It is sent back in a header. */
const LONGEST_ID = 1024
/** Matches text that a header may contain. */
const SENDABLE = /^[\x20-\x7e\x80-\xff]+$/

/** The position in a line: in the field's name, directly after its colon, or in the value. */
type LinePosition = 'name' | 'colon' | 'value'

/** UTF-8's byte order mark, as Latin-1. */
const MARK = '\u00ef\u00bb\u00bf'

/**
 * Splits a server-sent event stream while its bytes arrive, in chunks of any size, without buffering an event. It drops
 * comments, and the data of events whose type is neither `message` nor one of `types`.
 */
export class SseSplitter {
  /** The id of the last complete event that had one, as bytes in Latin-1: the value for `Last-Event-ID`. */
  lastEventId: string | undefined
  /** The pause before the stream is reopened, if the stream has set one. */
  retryMs: number | undefined
  readonly #receiver: SseReceiver
  readonly #types: ReadonlySet<string> | undefined
  #place: LinePosition = 'name'
  #name = ''
  #type = ''
  #id: string | undefined
  #retry = ''
  #hasData = false
  #wasCR = false

  constructor(receiver: SseReceiver, types?: ReadonlySet<string>) {
    this.#receiver = receiver
    this.#types = types
  }

  /** Continues with a stream that resumes this one. An incomplete event is dropped. */
  restart(): void {
    this.#place = 'name'
    this.#name = ''
    this.#type = ''
    this.#id = undefined
    this.#hasData = false
    this.#wasCR = false
  }

  push(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length) {
      const code = chunk[at] as number
      if (this.#wasCR && code === LF) at++
      else if (code === LF || code === CR) {
        this.#endLine()
        at++
      } else if (this.#place === 'name') {
        this.#nameByte(code)
        at++
      } else if (this.#place === 'colon' && code === SPACE) {
        this.#place = 'value'
        at++
      } else at = this.#value(chunk, at)
      this.#wasCR = code === CR
    }
  }

  #nameByte(code: number): void {
    if (code === COLON) this.#startValue()
    else if (this.#name.length < LONGEST_WORD) this.#name += String.fromCharCode(code)
  }

  #startValue(): void {
    this.#place = 'colon'
    // A byte order mark at the beginning of the stream is ignored (HTML, parsing an event stream).
    if (this.#name.charCodeAt(0) === 0xef) this.#name = this.#name.replace(MARK, '')
    if (this.#name === 'event') this.#type = ''
    else if (this.#name === 'id') this.#id = ''
    else if (this.#name === 'retry') this.#retry = ''
    else if (this.#name === 'data') this.#startData()
  }

  #startData(): void {
    if (!this.#wanted) return
    if (this.#hasData) this.#receiver.onEventData(LINE_BREAK)
    this.#hasData = true
  }

  get #wanted(): boolean {
    return this.#type === '' || this.#type === 'message' || this.#types?.has(this.#type) === true
  }

  #value(chunk: Buffer, from: number): number {
    this.#place = 'value'
    let end = from
    while (end < chunk.length && chunk[end] !== LF && chunk[end] !== CR) end++
    if (this.#name === 'data') {
      if (this.#wanted) this.#receiver.onEventData(chunk.subarray(from, end))
    } else if (this.#name === 'event' && this.#type.length < LONGEST_WORD)
      this.#type += chunk.toString('latin1', from, end)
    else if (this.#name === 'id' && (this.#id ?? '').length <= LONGEST_ID)
      this.#id += chunk.toString('latin1', from, end)
    else if (this.#name === 'retry' && this.#retry.length < LONGEST_WORD)
      this.#retry += chunk.toString('latin1', from, end)
    return end
  }

  #endLine(): void {
    if (this.#place === 'name' && this.#name === '') this.#endEvent()
    else if (this.#place === 'name' && this.#name === 'data') this.#startData()
    else if (this.#name === 'retry' && /^\d+$/.test(this.#retry)) this.retryMs = Number(this.#retry)
    this.#place = 'name'
    this.#name = ''
  }

  #endEvent(): void {
    const id = this.#id
    if (id !== undefined && id.length <= LONGEST_ID && SENDABLE.test(id)) this.lastEventId = id
    if (this.#hasData) this.#receiver.onEventEnd(this.#type)
    this.#hasData = false
    this.#type = ''
    this.#id = undefined
  }
}
