import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  isSpace,
  JsonSkipper,
  NULL,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from '../../server/json-lexer.ts'

/** The treatment of a value that is `null`, and of the values in it. */
export interface MendRule {
  /** JSON text in the place of `null`. Without it a member or element that is null is left out. */
  readonly whenNull?: string
  /** True for a member that is left out, whatever its value is. */
  readonly isDropped?: true
  /** The rules for members of an object; others stay as they are. */
  readonly members?: Readonly<Record<string, MendRule>>
  /** The rule for the elements of an array. */
  readonly items?: MendRule
  /** The members that an object gets if it lacks them. */
  readonly needed?: Readonly<Record<string, NeededMember>>
}

interface NeededMember {
  /** JSON text. */
  readonly value: string
  /** The names of the only members beside which it is needed; absent: it always is. */
  readonly besides?: readonly string[]
}

/** An open object or array to whose values rules apply. */
interface Frame {
  readonly rule: MendRule
  readonly isArray: boolean
  /** True once a member or element was kept: commas stand before the others. */
  hasKept: boolean
  /** The names of the members so far, if some are needed. */
  readonly seen: Set<string> | undefined
}

type State = 'value' | 'first' | 'key' | 'in-key' | 'colon' | 'after' | 'scalar' | 'nested' | 'lost'

/** In bytes. Longer names have no rules. */
const LONGEST_NAME = 64
/** The most names that are remembered of an object. */
const MOST_SEEN = 32
/** The most bytes of a separator, a name and white space that are held until it is known whether they stay. */
const MOST_HELD = 1024

/**
 * Leaves out members of a JSON-RPC message that are null, or puts what clients take in their place, as its bytes pass,
 * in chunks of any size. It reads only what its rules lead to, in linear time, and keeps all other bytes. Text that is
 * no JSON passes unchanged.
 */
export class NullMender {
  readonly #frames: Frame[] = []
  readonly #skipper = new JsonSkipper()
  /** Looks ahead in an object. */
  #probe = new JsonSkipper()
  #state: State = 'value'
  /** The rule of the current value. */
  #rule: MendRule | undefined
  #name = ''
  /** The index in the chunk of the separator before the current member or element, whose fate is open; else -1. */
  #slot = -1
  #startsWithComma = false
  /** The bytes of that part from earlier chunks. */
  #held: Buffer[] = []
  #heldSize = 0
  /** True if the current member or element stays, because too much of it would have to be held. */
  #isKept = false
  /** True while the bytes of a value are left out. */
  #isDropping = false
  /** The index in the chunk of the first byte that has not been passed on. */
  from = 0

  constructor(root: MendRule) {
    this.#rule = root
  }

  /** Takes the next bytes of the message and appends those to pass on to `out`. */
  push(chunk: Buffer, out: Buffer[]): void {
    this.from = 0
    this.walk(chunk, 0, 0, out)
    if (chunk.length > this.from) out.push(this.from === 0 ? chunk : chunk.subarray(this.from))
  }

  /** True after text that is no JSON. */
  get isLost(): boolean {
    return this.#state === 'lost'
  }

  /** The number of open objects and arrays that rules lead to. */
  get depth(): number {
    return this.#frames.length
  }

  /**
   * Goes on at `start` until the chunk ends or fewer than `depth` objects and arrays are open. Returns the index behind
   * that; the bytes up to `from` have been passed on by then, or left out.
   */
  walk(chunk: Buffer, start: number, depth: number, out: Buffer[]): number {
    const { length } = chunk
    if (this.#held.length > 0) this.#slot = start
    let at = start
    while (at < length && this.#state !== 'lost') {
      at = this.#next(chunk, at, out)
      if (this.#frames.length < depth) break
    }
    if (at >= length) this.#endChunk(chunk, out)
    return at
  }

  /** Holds what is open at the end of a chunk. */
  #endChunk(chunk: Buffer, out: Buffer[]): void {
    const { length } = chunk
    if (this.#isDropping) this.from = length
    if (this.#slot === -1) return
    const slot = this.#slot
    this.#slot = -1
    if (slot > this.from) out.push(chunk.subarray(this.from, slot))
    this.#held.push(Buffer.from(chunk.subarray(slot)))
    this.#heldSize += length - slot
    this.from = length
    if (this.#heldSize <= MOST_HELD) return
    this.#keep(chunk, out)
    this.#isKept = true
  }

  /** Gives up: everything passes from here on. */
  #lose(out: Buffer[]): void {
    this.#state = 'lost'
    this.#slot = -1
    this.#isDropping = false
    this.#passHeld(out)
  }

  #passHeld(out: Buffer[]): void {
    out.push(...this.#held)
    this.#held = []
    this.#heldSize = 0
  }

  /** Takes one token, or the part of it that has arrived, and returns the index behind it. */
  #next(chunk: Buffer, at: number, out: Buffer[]): number {
    const state = this.#state
    if (state === 'nested') {
      const end = this.#skipper.skip(chunk, at)
      if (!this.#skipper.isOpen) this.#endValue(end)
      return end
    }
    if (state === 'scalar') return this.#inScalar(chunk, at)
    if (state === 'in-key') return this.#inKey(chunk, at)
    const code = chunk[at] as number
    if (isSpace(code)) return at + 1
    if (state === 'value' || state === 'first') return this.#beginValue(chunk, at, out)
    this.#step(chunk, code, at, out)
    return at + 1
  }

  #step(chunk: Buffer, code: number, at: number, out: Buffer[]): void {
    const state = this.#state
    const frame = this.#frames.at(-1)
    if (state === 'key' && code === QUOTE) {
      this.#state = 'in-key'
      this.#skipper.inString = true
      this.#name = ''
    } else if (state === 'colon' && code === COLON) this.#state = 'value'
    else if (state === 'after' && code === COMMA && frame !== undefined) {
      this.#slot = at
      this.#startsWithComma = true
      this.#openSlot(frame)
    } else if (
      (state === 'after' || (state === 'key' && !this.#startsWithComma)) &&
      (code === CLOSE_OBJECT || code === CLOSE_ARRAY)
    )
      this.#close(chunk, at, out)
    else this.#lose(out)
  }

  #openSlot(frame: Frame): void {
    this.#state = frame.isArray ? 'value' : 'key'
    this.#rule = frame.isArray ? frame.rule.items : undefined
  }

  #inKey(chunk: Buffer, at: number): number {
    const end = this.#skipper.skipString(chunk, at)
    if (this.#name.length <= LONGEST_NAME) this.#name += chunk.toString('latin1', at, Math.min(end, at + LONGEST_NAME))
    if (this.#skipper.inString) return end
    const name = this.#name.slice(0, -1)
    const { rule, seen } = this.#frames.at(-1) as Frame
    const { members = NONE } = rule
    if (seen !== undefined && (seen.size < MOST_SEEN || Object.hasOwn(rule.needed ?? NONE, name))) seen.add(name)
    this.#rule = Object.hasOwn(members, name) ? members[name] : undefined
    this.#state = 'colon'
    return end
  }

  #beginValue(chunk: Buffer, at: number, out: Buffer[]): number {
    const code = chunk[at] as number
    const rule = this.#rule
    if (this.#state === 'first' && code === CLOSE_ARRAY) {
      this.#close(chunk, at, out)
      return at + 1
    }
    const isDropped = !this.#isKept && isDroppedBy(rule, code)
    this.#isKept = false
    if (isDropped) this.#drop(chunk, out)
    else this.#keep(chunk, out)
    if (rule?.whenNull !== undefined && code === NULL) {
      if (at > this.from) out.push(chunk.subarray(this.from, at))
      out.push(Buffer.from(rule.whenNull))
      this.#isDropping = true
    }
    if (!isDropped && code === OPEN_OBJECT && this.#frames.length > 1) {
      const end = this.#endWithoutNull(chunk, at)
      if (end !== undefined) {
        this.#endValue(end)
        return end
      }
    }
    return this.#openValue(code, at, isDropped ? undefined : rule)
  }

  /**
   * Returns the index behind an object that is whole in the chunk and has no null: nothing in it is mended. Otherwise
   * undefined.
   */
  #endWithoutNull(chunk: Buffer, at: number): number | undefined {
    const probe = this.#probe
    probe.depth = 1
    const end = probe.skip(chunk, at + 1)
    if (!probe.isOpen && !probe.hasNull) return end
    this.#probe = new JsonSkipper()
    return undefined
  }

  #openValue(code: number, at: number, rule: MendRule | undefined): number {
    const isArray = code === OPEN_ARRAY
    if (code === QUOTE) {
      this.#skipper.inString = true
      this.#state = 'nested'
    } else if (!isArray && code !== OPEN_OBJECT) {
      this.#state = endsScalar(code) ? 'lost' : 'scalar'
      return at
    } else if (!hasRules(rule, isArray)) {
      this.#skipper.depth = 1
      this.#state = 'nested'
    } else {
      const seen = isArray || rule.needed === undefined ? undefined : new Set<string>()
      const frame = { rule, isArray, hasKept: false, seen }
      this.#frames.push(frame)
      this.#slot = at + 1
      this.#startsWithComma = false
      this.#openSlot(frame)
      if (isArray) this.#state = 'first'
    }
    return at + 1
  }

  /** Passes on what was held of the current member or element. */
  #keep(chunk: Buffer, out: Buffer[]): void {
    const frame = this.#frames.at(-1)
    const slot = this.#slot
    this.#slot = -1
    if (frame === undefined) return
    const isCut = this.#startsWithComma && !frame.hasKept
    frame.hasKept = true
    if (this.#held.length > 0) {
      if (isCut) this.#held[0] = (this.#held[0] as Buffer).subarray(1)
      this.#passHeld(out)
    } else if (isCut && slot !== -1) {
      if (slot > this.from) out.push(chunk.subarray(this.from, slot))
      this.from = slot + 1
    }
  }

  /** Leaves out the current member or element. */
  #drop(chunk: Buffer, out: Buffer[]): void {
    const slot = this.#slot
    this.#slot = -1
    if (this.#held.length > 0) {
      this.#held = []
      this.#heldSize = 0
    } else if (slot > this.from) out.push(chunk.subarray(this.from, slot))
    this.#isDropping = true
  }

  #inScalar(chunk: Buffer, start: number): number {
    const { length } = chunk
    let at = start
    while (at < length && !endsScalar(chunk[at] as number)) at++
    if (at < length) this.#endValue(at)
    return at
  }

  #endValue(at: number): void {
    this.#state = 'after'
    if (this.#isDropping) this.from = at
    this.#isDropping = false
  }

  #close(chunk: Buffer, at: number, out: Buffer[]): void {
    this.#slot = -1
    this.#passHeld(out)
    const frame = this.#frames.pop()
    const missing = frame === undefined ? '' : missingIn(frame)
    if (missing !== '') {
      if (at > this.from) out.push(chunk.subarray(this.from, at))
      this.from = at
      out.push(Buffer.from(missing))
    }
    this.#state = 'after'
  }
}

/** Returns the members (JSON text) that an object lacks. */
function missingIn({ rule, hasKept, seen }: Frame): string {
  if (seen === undefined) return ''
  const missing = Object.entries(rule.needed ?? NONE).filter(
    ([name, { besides }]) => !seen.has(name) && (besides === undefined || isWithin(seen, besides)),
  )
  const text = missing.map(([name, { value }]) => `${JSON.stringify(name)}:${value}`).join(',')
  return text !== '' && hasKept ? `,${text}` : text
}

/** Tells whether rules apply to what is in an array or object. */
const hasRules = (rule: MendRule | undefined, isArray: boolean): rule is MendRule =>
  (isArray ? rule?.items : (rule?.members ?? rule?.needed)) !== undefined

const isDroppedBy = (rule: MendRule | undefined, code: number): boolean =>
  rule !== undefined && (rule.isDropped === true || (code === NULL && rule.whenNull === undefined))

const isWithin = (seen: ReadonlySet<string>, names: readonly string[]): boolean =>
  [...seen].every((name) => names.includes(name))

const NONE: Readonly<Record<string, never>> = {}

const endsScalar = (code: number): boolean =>
  code === COMMA || code === CLOSE_OBJECT || code === CLOSE_ARRAY || isSpace(code)

/** Returns a whole message as the rule mends it. */
export function mendedNulls(message: Buffer, rule: MendRule): Buffer {
  const out: Buffer[] = []
  new NullMender(rule).push(message, out)
  return out.length === 1 ? (out[0] as Buffer) : Buffer.concat(out)
}
