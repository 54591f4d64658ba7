import { at as pointerTo } from '../../../../crds/settings/json.ts'
import { isSpace, JsonSkipper } from '../../../server/json-lexer.ts'

/** The objects and lists that are split: an object into its members, a list (`elements`) into its elements. */
export type Shape = 'elements' | { readonly [member: string]: Shape }

export interface Part {
  /** RFC 6901. */
  readonly pointer: string
  /** The pointer of the list that has the part; undefined for a member of an object and for the whole text. */
  readonly list: string | undefined
  /**
   * The bytes of the value, valid until the call returns; they may not be valid JSON. `opened`: an object or list that
   * is split begins. `oversize`: the value is longer than allowed.
   */
  readonly value: Buffer | 'opened' | 'oversize'
}

interface Container {
  readonly shape: Shape
  readonly pointer: string
  index: number
  key: string
}

type State =
  /** A value is expected. With `first` the container may also end; in an object a key may follow. */
  'value' | 'first' | 'key' | 'colon' | 'next' | 'kept' | 'done'

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
/** The most characters of a key in a pointer. No key in a shape is longer. */
const LONGEST_STEP = 64
const BYTE_ORDER_MARK = Buffer.from('\uFEFF')

/**
 * Splits a JSON text as its bytes arrive, and holds one part at a time. Objects and lists of `shape` are split; all
 * other values go to `onPart` as bytes. In parts longer than `longest` bytes only brackets and strings are checked.
 * Throws a SyntaxError.
 */
export const splitJson = (shape: Shape, longest: number, onPart: (part: Part) => void): Splitter =>
  new Splitter(shape, longest, onPart)

class Splitter {
  readonly #shape: Shape
  readonly #longest: number
  readonly #onPart: (part: Part) => void
  readonly #open: Container[] = []
  #state: State = 'value'
  #isKey = false
  /** The bytes of the byte order mark so far; all three if there is none. */
  #marked = 0
  #held: Buffer[] = []
  #heldBytes = 0
  #oversize = false
  readonly #skipper = new JsonSkipper()

  constructor(shape: Shape, longest: number, onPart: (part: Part) => void) {
    this.#shape = shape
    this.#longest = longest
    this.#onPart = onPart
  }

  push(chunk: Buffer): void {
    let index = this.#skipMark(chunk)
    while (index < chunk.length) {
      if (this.#state === 'kept') {
        const end = this.#findEnd(chunk, index)
        if (end === undefined) {
          this.#hold(chunk.subarray(index))
          return
        }
        this.#finishKept(chunk.subarray(index, end))
        index = end
        continue
      }
      const byte = chunk[index] as number
      // The first byte of a kept value belongs to it.
      if (isSpace(byte) || !this.#step(byte)) index++
    }
  }

  end(): void {
    // A text that is only a number ends here.
    if (this.#state === 'kept' && this.#open.length === 0 && !this.#skipper.isOpen) this.#finishKept(Buffer.alloc(0))
    if (this.#state !== 'done') throw new SyntaxError(`it ends too early, at ${this.#pointer || 'the beginning'}`)
  }

  #fail(byte: number): never {
    throw new SyntaxError(
      `unexpected ${JSON.stringify(String.fromCharCode(byte))} at ${this.#pointer || 'the beginning'}`,
    )
  }

  /** The RFC 6901 pointer of the next value. */
  get #pointer(): string {
    const container = this.#open.at(-1)
    if (container === undefined) return ''
    const step = container.shape === 'elements' ? String(container.index) : container.key
    return pointerTo(container.pointer, step.slice(0, LONGEST_STEP))
  }

  get #shapeNow(): Shape | undefined {
    const container = this.#open.at(-1)
    if (container === undefined) return this.#shape
    const { shape: outer, key } = container
    return outer !== 'elements' && Object.hasOwn(outer, key) ? outer[key] : undefined
  }

  #part(value: Part['value']): void {
    const container = this.#open.at(-1)
    const list = container?.shape === 'elements' ? container.pointer : undefined
    this.#onPart({ pointer: this.#pointer, list, value })
  }

  /** Returns the index of the first byte after a byte order mark. */
  #skipMark(chunk: Buffer): number {
    let index = 0
    for (; this.#marked < BYTE_ORDER_MARK.length && index < chunk.length; index++) {
      const byte = chunk[index] as number
      if (byte === BYTE_ORDER_MARK[this.#marked]) this.#marked++
      else if (this.#marked > 0) this.#fail(byte)
      else {
        this.#marked = BYTE_ORDER_MARK.length
        return index
      }
    }
    return index
  }

  #step(byte: number): boolean {
    const state = this.#state
    if ((state === 'first' || state === 'next') && this.#closes(byte)) this.#close()
    else if (state === 'value') this.#beginValue(byte)
    else if (state === 'first') this.#beginFirst(byte)
    else if (state === 'key') this.#beginKey(byte)
    else if (state === 'colon' && byte === COLON) this.#state = 'value'
    else if (state === 'next' && byte === COMMA) this.#comma()
    else this.#fail(byte)
    return this.#state === 'kept'
  }

  #closes(byte: number): boolean {
    const container = this.#open.at(-1)
    return container !== undefined && byte === (container.shape === 'elements' ? CLOSE_LIST : CLOSE_OBJECT)
  }

  #close(): void {
    this.#open.pop()
    this.#state = this.#open.length === 0 ? 'done' : 'next'
  }

  #comma(): void {
    const container = this.#open.at(-1) as Container
    container.index++
    this.#state = container.shape === 'elements' ? 'value' : 'key'
  }

  #beginFirst(byte: number): void {
    if (this.#open.at(-1)?.shape === 'elements') this.#beginValue(byte)
    else this.#beginKey(byte)
  }

  #beginKey(byte: number): void {
    if (byte !== QUOTE) this.#fail(byte)
    this.#isKey = true
    this.#state = 'kept'
  }

  #beginValue(byte: number): void {
    const inner = this.#shapeNow
    const opens = inner === 'elements' ? byte === OPEN_LIST : inner !== undefined && byte === OPEN_OBJECT
    if (inner !== undefined && opens) {
      this.#part('opened')
      this.#open.push({ shape: inner, pointer: this.#pointer, index: 0, key: '' })
      this.#state = 'first'
    } else if (byte === COMMA || byte === COLON || byte === CLOSE_LIST || byte === CLOSE_OBJECT) this.#fail(byte)
    else this.#state = 'kept'
  }

  #findEnd(chunk: Buffer, from: number): number | undefined {
    const skipper = this.#skipper
    let index = from
    while (index < chunk.length) {
      if (skipper.isOpen) {
        index = skipper.skip(chunk, index)
        return skipper.isOpen ? undefined : index
      }
      const byte = chunk[index] as number
      if (endsScalar(byte)) return index
      if (byte === QUOTE) skipper.inString = true
      else if (byte === OPEN_OBJECT || byte === OPEN_LIST) skipper.depth = 1
      index++
    }
    return undefined
  }

  #hold(bytes: Buffer): void {
    this.#heldBytes += bytes.length
    this.#oversize ||= this.#heldBytes > this.#longest
    if (this.#oversize) this.#held = []
    else this.#held.push(Buffer.from(bytes))
  }

  #finishKept(bytes: Buffer): void {
    const tooLong = this.#oversize || this.#heldBytes + bytes.length > this.#longest
    const whole = this.#held.length === 0 ? bytes : Buffer.concat([...this.#held, bytes])
    this.#held = []
    this.#heldBytes = 0
    this.#oversize = false
    if (this.#isKey) this.#endKey(whole, tooLong)
    else {
      this.#part(tooLong ? 'oversize' : whole)
      this.#state = this.#open.length === 0 ? 'done' : 'next'
    }
  }

  #endKey(text: Buffer, tooLong: boolean): void {
    const container = this.#open.at(-1) as Container
    if (tooLong) throw new SyntaxError(`a key at ${container.pointer || 'the beginning'} is too long`)
    container.key = String(JSON.parse(text.toString()))
    this.#isKey = false
    this.#state = 'colon'
  }
}

const endsScalar = (byte: number): boolean =>
  byte === COMMA || byte === COLON || byte === CLOSE_OBJECT || byte === CLOSE_LIST || isSpace(byte)
