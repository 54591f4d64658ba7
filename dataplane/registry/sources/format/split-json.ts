import { at as pointerTo } from '../../../../crds/shared/json.ts'

/** Which containers are taken apart: an object member by member, a list (`elements`) element by element. */
export type Shape = 'elements' | { readonly [member: string]: Shape }

/** What is handed on of a JSON text. */
export interface Part {
  /** RFC 6901. */
  readonly pointer: string
  /** The list that it is an element of; undefined where it is a member of an object, or the whole text. */
  readonly list: string | undefined
  /**
   * Its bytes, valid until the call returns; they are JSON once a parser has taken them. `opened` where a container that
   * is taken apart begins, `oversize` where it is longer than is kept.
   */
  readonly value: Buffer | 'opened' | 'oversize'
}

export interface JsonSplitter {
  /** Takes the next bytes. Throws a SyntaxError where they can't go on what came before. */
  push(chunk: Buffer): void
  /** The text has ended. Throws a SyntaxError where it is not complete. */
  end(): void
}

interface Container {
  readonly shape: Shape
  readonly pointer: string
  /** Of the current element. */
  index: number
  /** Of the current member. */
  key: string
}

type State =
  /** A value must come, or (`first`) the end of a container that has just begun; a key, in an object. */
  | 'value'
  | 'first'
  | 'key'
  | 'colon'
  /** A comma or the end of the container. */
  | 'next'
  /** Inside a value or a key that is kept. */
  | 'kept'
  | 'done'

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_LIST = 0x5b
const BACKSLASH = 0x5c
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
/** Of a key so many characters are told; no member that is taken apart has a longer one. */
const LONGEST_STEP = 64
const BYTE_ORDER_MARK = Buffer.from('\uFEFF')

const isBlank = (byte: number) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/**
 * Takes a JSON text apart as its bytes come, so that a text of any size needs the memory of its longest part: containers
 * of `shape` are opened, everything else is handed to `onPart` as it stands, to be parsed there. Parts longer than
 * `longest` bytes are passed over, and of them only the brackets are checked.
 */
export function splitJson(shape: Shape, longest: number, onPart: (part: Part) => void): JsonSplitter {
  const open: Container[] = []
  let state: State = 'value'
  let isKey = false
  /** How much of a byte order mark has come; all of it also where there is none. */
  let marked = 0
  /** Of what is kept: what earlier chunks had of it, and how it stands. */
  let held: Buffer[] = []
  let heldBytes = 0
  let oversize = false
  let depth = 0
  let inString = false
  let escaped = false

  function fail(byte: number): never {
    const at = pointerNow() || 'the beginning'
    throw new SyntaxError(`unexpected ${JSON.stringify(String.fromCharCode(byte))} at ${at}`)
  }

  function pointerNow(): string {
    const container = open.at(-1)
    if (container === undefined) return ''
    const step = container.shape === 'elements' ? String(container.index) : container.key
    return pointerTo(container.pointer, step.slice(0, LONGEST_STEP))
  }

  function shapeNow(): Shape | undefined {
    const container = open.at(-1)
    if (container === undefined) return shape
    const { shape: outer, key } = container
    return outer !== 'elements' && Object.hasOwn(outer, key) ? outer[key] : undefined
  }

  function part(value: Part['value']): void {
    const container = open.at(-1)
    onPart({ pointer: pointerNow(), list: container?.shape === 'elements' ? container.pointer : undefined, value })
  }

  /** Gives the index of the first byte behind a byte order mark. */
  function skipMark(chunk: Buffer): number {
    let index = 0
    for (; marked < BYTE_ORDER_MARK.length && index < chunk.length; index++) {
      const byte = chunk[index] as number
      if (byte === BYTE_ORDER_MARK[marked]) marked++
      else if (marked > 0) fail(byte)
      else {
        marked = BYTE_ORDER_MARK.length
        return index
      }
    }
    return index
  }

  /** A value begins with this byte; tells whether it is kept, and the byte with it. */
  function beginValue(byte: number): void {
    const inner = shapeNow()
    const opens = inner === 'elements' ? byte === OPEN_LIST : inner !== undefined && byte === OPEN_OBJECT
    if (inner !== undefined && opens) {
      part('opened')
      open.push({ shape: inner, pointer: pointerNow(), index: 0, key: '' })
      state = 'first'
    } else if (byte === COMMA || byte === COLON || byte === CLOSE_LIST || byte === CLOSE_OBJECT) fail(byte)
    else state = 'kept'
  }

  function closes(byte: number): boolean {
    const container = open.at(-1)
    return container !== undefined && byte === (container.shape === 'elements' ? CLOSE_LIST : CLOSE_OBJECT)
  }

  function close(): void {
    open.pop()
    state = open.length === 0 ? 'done' : 'next'
  }

  /** Goes on with what is kept; gives the index after its end, or undefined where the chunk ends before it. */
  function findEnd(chunk: Buffer, from: number): number | undefined {
    let level = depth
    let quoted = inString
    let index = from
    for (; index < chunk.length; index++) {
      const byte = chunk[index] as number
      if (quoted) {
        if (escaped) escaped = false
        else if (byte === BACKSLASH) escaped = true
        else if (byte === QUOTE) {
          quoted = false
          if (level === 0) return index + 1
        }
      } else if (byte === QUOTE) quoted = true
      else if (byte === OPEN_OBJECT || byte === OPEN_LIST) level++
      else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) {
        // Of a number or a word the end is what follows it.
        if (level === 0) return index
        if (--level === 0) return index + 1
      } else if (level === 0 && (byte === COMMA || byte === COLON || isBlank(byte))) return index
    }
    depth = level
    inString = quoted
    return undefined
  }

  function hold(bytes: Buffer): void {
    heldBytes += bytes.length
    oversize ||= heldBytes > longest
    if (oversize) held = []
    // A copy: whoever reads may use its buffer again.
    else held.push(Buffer.from(bytes))
  }

  function finishKept(bytes: Buffer): void {
    const tooLong = oversize || heldBytes + bytes.length > longest
    const whole = held.length === 0 ? bytes : Buffer.concat([...held, bytes])
    held = []
    heldBytes = 0
    oversize = false
    depth = 0
    inString = false
    if (isKey) {
      if (tooLong) throw new SyntaxError(`a key at ${open.at(-1)?.pointer || 'the beginning'} is too long`)
      ;(open.at(-1) as Container).key = String(JSON.parse(whole.toString()))
      state = 'colon'
    } else {
      part(tooLong ? 'oversize' : whole)
      state = open.length === 0 ? 'done' : 'next'
    }
    isKey = false
  }

  /** A byte that is not inside of anything that is kept. */
  function step(byte: number): void {
    if ((state === 'first' || state === 'next') && closes(byte)) close()
    else if (state === 'first') begin(byte)
    else if (state === 'value') beginValue(byte)
    else if (state === 'key') beginKey(byte)
    else if (state === 'colon' && byte === COLON) state = 'value'
    else if (state === 'next' && byte === COMMA) {
      const container = open.at(-1) as Container
      container.index++
      state = container.shape === 'elements' ? 'value' : 'key'
    } else fail(byte)
  }

  function begin(byte: number): void {
    if (open.at(-1)?.shape === 'elements') beginValue(byte)
    else beginKey(byte)
  }

  function beginKey(byte: number): void {
    if (byte !== QUOTE) fail(byte)
    isKey = true
    state = 'kept'
  }

  return {
    push(chunk) {
      let index = skipMark(chunk)
      while (index < chunk.length) {
        if (state === 'kept') {
          const end = findEnd(chunk, index)
          if (end === undefined) return hold(chunk.subarray(index))
          finishKept(chunk.subarray(index, end))
          index = end
          continue
        }
        const byte = chunk[index] as number
        if (!isBlank(byte)) step(byte)
        // What begins to be kept is kept from its first byte.
        if ((state as State) !== 'kept') index++
      }
    },
    end() {
      // A number as the whole text ends where the text does.
      if (state === 'kept' && open.length === 0 && depth === 0 && !inString) finishKept(Buffer.alloc(0))
      if (state !== 'done') throw new SyntaxError(`it ends in the middle, at ${pointerNow() || 'the beginning'}`)
    },
  }
}
