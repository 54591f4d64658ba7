import { isObject } from '../../../crds/settings/json.ts'
import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  endsScalar,
  isSpace,
  JsonSkipper,
  NULL,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from '../../server/json-lexer.ts'
import { tryParse } from './json.ts'

/** The rule for a value that may be `null`, and for the values in it. */
export interface MendRule {
  /** JSON text that replaces `null`. Without it a null member or element is removed. */
  readonly whenNull?: string
  /** True for a member that is always removed. */
  readonly isDropped?: true
  /** The rules for members of an object. Other members stay unchanged. */
  readonly members?: Readonly<Record<string, MendRule>>
  /** The rule for the elements of an array. */
  readonly items?: MendRule
  /** The members that are added to an object that lacks them. */
  readonly needed?: Readonly<Record<string, NeededMember>>
}

interface NeededMember {
  /** JSON text. */
  readonly value: string
  /** The member is needed if the object has no other members than these; absent: it is always needed. */
  readonly besides?: readonly string[]
}

/** An open object or array with rules for its values. */
interface Frame {
  readonly rule: MendRule
  readonly isArray: boolean
  /** True once a member or element was kept, so that a comma must precede the next one. */
  hasKept: boolean
  /** The names of the members so far, if the rule adds missing members. */
  readonly seen: Set<string> | undefined
}

type State = 'value' | 'first' | 'key' | 'in-key' | 'colon' | 'after' | 'scalar' | 'nested' | 'lost'

/** The longest name in bytes. Longer names have no rules. */
const LONGEST_NAME = 64
/** The most names of an object that are remembered. */
const MOST_SEEN = 32
/** The most bytes of a separator, a name and white space that are buffered until it is known whether they stay. */
const MOST_HELD = 1024

/**
 * Removes members of a JSON-RPC message that are null, or replaces them by values that clients accept, while its bytes
 * pass in chunks of any size. It reads only the parts that have rules, in linear time, and keeps all other bytes. Text
 * that is not JSON passes unchanged.
 */
export class NullMender {
  readonly #frames: Frame[] = []
  readonly #skipper = new JsonSkipper()
  /** Searches the rest of an object for null. */
  #probe = new JsonSkipper()
  #state: State = 'value'
  #rule: MendRule | undefined
  #name = ''
  /** The index in the chunk of the separator before the current member or element, while it is undecided; else -1. */
  #slot = -1
  #startsWithComma = false
  /** The undecided bytes from earlier chunks. */
  #held: Buffer[] = []
  #heldSize = 0
  /** True if the current member or element must stay, because too many bytes would have to be buffered. */
  #isKept = false
  /** True while the bytes of a value are removed. */
  #isDropping = false
  /** The index in the chunk of the first byte that has not been passed on. */
  from = 0

  constructor(root: MendRule) {
    this.#rule = root
  }

  /** Reads the next bytes of the message, and appends the bytes to pass on to `out`. */
  push(chunk: Buffer, out: Buffer[]): void {
    this.from = 0
    this.walk(chunk, 0, 0, out)
    if (chunk.length > this.from) out.push(this.from === 0 ? chunk : chunk.subarray(this.from))
  }

  /** True after text that is not JSON. */
  get isLost(): boolean {
    return this.#state === 'lost'
  }

  /** The number of open objects and arrays with rules. */
  get depth(): number {
    return this.#frames.length
  }

  /**
   * Continues at `start` until the chunk ends or fewer than `depth` objects and arrays are open. Returns the index
   * after the last byte read. The bytes up to `from` have been passed on or removed by then.
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

  /** Buffers the undecided bytes at the end of a chunk. */
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

  /** Gives up, so that all further bytes pass unchanged. */
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

  /** Reads one token, or the part of it that has arrived. Returns the index after it. */
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
   * Returns the index after an object that is whole in the chunk and contains no null, so that nothing in it needs
   * repair. Otherwise returns undefined.
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

  /** Passes on the buffered bytes of the current member or element. */
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

  /** Removes the current member or element. */
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
    const missing = frame === undefined ? '' : buildMissing(frame)
    if (missing !== '') {
      if (at > this.from) out.push(chunk.subarray(this.from, at))
      this.from = at
      out.push(Buffer.from(missing))
    }
    this.#state = 'after'
  }
}

/** Returns the members (JSON text) that must be added to an object. */
function buildMissing({ rule, hasKept, seen }: Frame): string {
  if (seen === undefined) return ''
  const missing = Object.entries(rule.needed ?? NONE).filter(
    ([name, { besides }]) => !seen.has(name) && (besides === undefined || isWithin(seen, besides)),
  )
  const text = missing.map(([name, { value }]) => `${JSON.stringify(name)}:${value}`).join(',')
  return text !== '' && hasKept ? `,${text}` : text
}

const hasRules = (rule: MendRule | undefined, isArray: boolean): rule is MendRule =>
  (isArray ? rule?.items : (rule?.members ?? rule?.needed)) !== undefined

const isDroppedBy = (rule: MendRule | undefined, code: number): boolean =>
  rule !== undefined && (rule.isDropped === true || (code === NULL && rule.whenNull === undefined))

const isWithin = (seen: ReadonlySet<string>, names: readonly string[]): boolean =>
  [...seen].every((name) => names.includes(name))

const NONE: Readonly<Record<string, never>> = {}

export function mendNulls(message: Buffer, rule: MendRule): Buffer {
  const out: Buffer[] = []
  new NullMender(rule).push(message, out)
  return out.length === 1 ? (out[0] as Buffer) : Buffer.concat(out)
}

/**
 * The rule for members of results that official clients accept if absent but refuse if null. Servers write null for
 * absent values: Go's nil slices, and serializers that write every member.
 */

const OPTIONAL: MendRule = {}
const annotations: MendRule = { members: { audience: OPTIONAL, priority: OPTIONAL, lastModified: OPTIONAL } }
const icons: MendRule = { items: { members: { mimeType: OPTIONAL, sizes: OPTIONAL, theme: OPTIONAL } } }
const contents: MendRule = { members: { mimeType: OPTIONAL, text: OPTIONAL, blob: OPTIONAL, _meta: OPTIONAL } }
/** A content block of any type. A null `text` becomes empty in a text block; other blocks have no `text`. */
const block: MendRule = {
  members: {
    text: { whenNull: '""' },
    annotations,
    _meta: OPTIONAL,
    resource: contents,
    title: OPTIONAL,
    description: OPTIONAL,
    mimeType: OPTIONAL,
    size: OPTIONAL,
    icons,
  },
}
const content: MendRule = { whenNull: '[]', items: block }

/** SDK 2 requires `content` in a tool's result. It is added only beside these members: other results don't have it. */
const NEEDS_CONTENT = { content: { value: '[]', besides: ['structuredContent', 'isError', '_meta', 'resultType'] } }

const messageWith = (members: MendRule['members'], needed?: MendRule['needed']): MendRule => ({
  members: {
    result: {
      whenNull: '{}',
      members: { _meta: OPTIONAL, resultType: OPTIONAL, ...members },
      ...(needed === undefined ? {} : { needed }),
    },
    error: OPTIONAL,
    // Some frameworks write these two members of requests into answers.
    method: { isDropped: true },
    params: { isDropped: true },
  },
  needed: { jsonrpc: { value: '"2.0"' } },
})

const task = { statusMessage: OPTIONAL, pollInterval: OPTIONAL }
const tool = { content, isError: OPTIONAL, task: { members: task } }
/** The modern era allows null as structured content. */
const legacyTool = { ...tool, structuredContent: OPTIONAL }
const prompt = { description: OPTIONAL, messages: { whenNull: '[]', items: { members: { content: block } } } }
const read = {
  contents: { whenNull: '[]', items: contents },
  ttlMs: { whenNull: '0' },
  cacheScope: { whenNull: '"private"' },
}
const completion = {
  completion: { members: { values: { whenNull: '[]', items: OPTIONAL }, total: OPTIONAL, hasMore: OPTIONAL } },
}
const tasks = { nextCursor: OPTIONAL, tasks: { whenNull: '[]', items: { members: task } } }

const TOOL = messageWith(legacyTool, NEEDS_CONTENT)
const MODERN_TOOL = messageWith(tool, NEEDS_CONTENT)
const rules: Readonly<Record<string, MendRule>> = {
  'tools/call': TOOL,
  'tasks/result': messageWith(legacyTool),
  'tasks/get': messageWith(task),
  'tasks/list': messageWith(tasks),
  'prompts/get': messageWith(prompt),
  'resources/read': messageWith(read),
  'completion/complete': messageWith(completion),
}
const OTHER = messageWith({})

/**
 * Returns the rule for the answer to a request with this method. `isModern`: a modern backend answers a modern client,
 * so the answer is not translated.
 */
export const ruleFor = (method: string, isModern: boolean): MendRule =>
  isModern && method === 'tools/call' ? MODERN_TOOL : (rules[method] ?? OTHER)

/** The rule for notifications and requests of a server. */
const UNASKED: MendRule = {
  members: {
    params: {
      members: {
        _meta: OPTIONAL,
        // Progress, log messages and cancellations.
        total: OPTIONAL,
        message: OPTIONAL,
        logger: OPTIONAL,
        reason: OPTIONAL,
        // Elicitation.
        requestedSchema: { members: { required: OPTIONAL } },
        // Sampling.
        messages: { items: { members: { content: { ...block, items: block }, _meta: OPTIONAL } } },
        systemPrompt: OPTIONAL,
        includeContext: OPTIONAL,
        temperature: OPTIONAL,
        stopSequences: OPTIONAL,
        metadata: OPTIONAL,
        modelPreferences: {
          members: {
            hints: { items: { members: { name: OPTIONAL } } },
            costPriority: OPTIONAL,
            speedPriority: OPTIONAL,
            intelligencePriority: OPTIONAL,
          },
        },
        tools: OPTIONAL,
        toolChoice: OPTIONAL,
      },
    },
  },
}

/** Returns a whole notification or request of a server, without null members that may be absent. */
export const mendUnasked = (message: Buffer, hasNull = message.includes(NULL_TEXT)): Buffer =>
  hasNull ? mendNulls(message, UNASKED) : message

const NULL_TEXT = Buffer.from('null')
/** The first member of a tool's result as most servers write it. */
export const CONTENT = Buffer.from('"content"')

/** Tells whether a whole answer may need the repairs of a rule. `hasNull`: it contains null. */
export const mayNeedMending = (message: Buffer, hasNull: boolean, rule: MendRule): boolean =>
  hasNull || ((rule === TOOL || rule === MODERN_TOOL) && !message.includes(CONTENT))

const INTERNAL_ERROR = -32603

/** Returns an error (JSON text) in the form of JSON-RPC 2.0, with a number and a text. Numbers keep their spelling. */
export function mendError(text: string): string {
  const error = tryParse(text)
  if (!isObject(error)) return JSON.stringify({ code: INTERNAL_ERROR, message: readReason(error) })
  const { code, message } = error
  if (Number.isInteger(code) && typeof message === 'string') return text
  const number = typeof code === 'string' && INTEGER.test(code) ? Number(code) : code
  return JSON.stringify({
    ...error,
    code: Number.isInteger(number) ? number : INTERNAL_ERROR,
    message: readReason(message),
  })
}

const INTEGER = /^-?\d{1,6}$/

const readReason = (value: unknown): string => (typeof value === 'string' ? value : 'The backend gives no reason.')
