import { isUtf8 } from 'node:buffer'
import { isObject } from '../../../crds/settings/json.ts'
import { PublicError } from '../../server/errors.ts'
import type { TraceContext } from '../../telemetry/observe.ts'
import { Elements, editObject, foldName, Members, parseJson, skipSpace, structureBytes } from './json.ts'

/** Member names, each with its own bit. */
interface Names {
  readonly exact: ReadonlyMap<string, number>
  readonly folded: ReadonlyMap<string, number>
}

const bits = (...names: string[]): Names => ({
  exact: new Map(names.map((name, index) => [name, 1 << index])),
  folded: new Map(names.map((name, index) => [foldName(name), 1 << index])),
})

/** Members that must occur only once, because different parsers could use different ones. */
const messageNames = bits('jsonrpc', 'id', 'method', 'params', 'result', 'error')
const paramsNames = bits(
  'name',
  'arguments',
  '_meta',
  'uri',
  'cursor',
  'requestState',
  'inputResponses',
  'task',
  'taskId',
  'ref',
)

/** The positions of the parts of a message in its text. */
type Places = Record<`${'id' | 'params' | 'name' | 'uri' | 'arguments' | 'meta'}${'Start' | 'End'}`, number>

/** In characters of JSON text. */
const LONGEST_ID = 1024

/**
 * A client's JSON-RPC message, parsed once: `params` to read, and the text with the positions of the parts that may be
 * rewritten for relaying. Both positions of an absent part are -1.
 */
export class Message {
  readonly text: string
  readonly kind: 'request' | 'notification' | 'response'
  /** The original id of a request. It is returned byte for byte. */
  readonly id: string | undefined
  readonly method: string
  readonly params: Readonly<Record<string, unknown>> | undefined
  idStart = -1
  idEnd = -1
  paramsStart = -1
  paramsEnd = -1
  nameStart = -1
  nameEnd = -1
  uriStart = -1
  uriEnd = -1
  argumentsStart = -1
  argumentsEnd = -1
  metaStart = -1
  metaEnd = -1
  #memory: Buffer | undefined

  /**
   * @param places the positions of the parts of a valid request without duplicate members; absent: they are computed
   */
  constructor(text: string, value: Record<string, unknown>, places?: Places) {
    this.text = text
    const { method, params, id } = value
    this.method = typeof method === 'string' ? method : ''
    this.kind = 'method' in value ? ('id' in value ? 'request' : 'notification') : 'response'
    this.params = params as Record<string, unknown> | undefined
    if (places === undefined) {
      checkShape(value, this.kind)
      this.#locate()
    } else this.#take(places)
    this.id = id === undefined ? undefined : text.slice(this.idStart, this.idEnd)
    if (this.id !== undefined && this.id.length > LONGEST_ID)
      throw new PublicError('invalid_message', { message: 'id is too long.' })
  }

  get meta(): Readonly<Record<string, unknown>> | undefined {
    const meta = this.params?.['_meta']
    return isObject(meta) ? meta : undefined
  }

  /** The cursor of a list request. Null counts as absent. */
  get cursor(): unknown {
    return this.params?.['cursor'] ?? undefined
  }

  /** True for a modern client's retry, which continues another request. A null state counts as absent. */
  get isContinued(): boolean {
    return (this.params?.['requestState'] ?? undefined) !== undefined
  }

  /** Keeps the memory of the body that the message was read from, for the body of a request to the backend. */
  keepMemory(body: Buffer): void {
    this.#memory = body
  }

  /** Returns the memory that was kept, once: two requests must not be written to it. */
  takeMemory(): Buffer | undefined {
    const memory = this.#memory
    this.#memory = undefined
    return memory
  }

  parameter(name: string): string | undefined {
    const value = this.params?.[name]
    return typeof value === 'string' ? value : undefined
  }

  /** Returns the request with another URI. */
  withUri(uri: string): Message {
    const { text, uriStart, uriEnd, method, id } = this
    const edited = text.slice(0, uriStart) + JSON.stringify(uri) + text.slice(uriEnd)
    const params = { ...this.params, uri }
    return new Message(edited, { id, method, params }, this.#moved(uriEnd, edited.length - text.length))
  }

  /** Returns the positions after `by` characters were inserted at `from`. */
  #moved(from: number, by: number): Places {
    const shift = (at: number) => (at < from ? at : at + by)
    return {
      idStart: shift(this.idStart),
      idEnd: shift(this.idEnd),
      paramsStart: shift(this.paramsStart),
      paramsEnd: shift(this.paramsEnd),
      nameStart: shift(this.nameStart),
      nameEnd: shift(this.nameEnd),
      uriStart: shift(this.uriStart),
      uriEnd: shift(this.uriEnd),
      argumentsStart: shift(this.argumentsStart),
      argumentsEnd: shift(this.argumentsEnd),
      metaStart: shift(this.metaStart),
      metaEnd: shift(this.metaEnd),
    }
  }

  #take(places: Places): void {
    this.idStart = places.idStart
    this.idEnd = places.idEnd
    this.paramsStart = places.paramsStart
    this.paramsEnd = places.paramsEnd
    this.nameStart = places.nameStart
    this.nameEnd = places.nameEnd
    this.uriStart = places.uriStart
    this.uriEnd = places.uriEnd
    this.argumentsStart = places.argumentsStart
    this.argumentsEnd = places.argumentsEnd
    this.metaStart = places.metaStart
    this.metaEnd = places.metaEnd
  }

  #locate(): void {
    const { text } = this
    const top = new Members(text, skipSpace(text, 0))
    let seen = 0
    while (top.next()) {
      seen = withBit(seen, top.key, messageNames)
      if (top.key === 'id') {
        this.idStart = top.valueStart
        this.idEnd = top.valueEnd
      } else if (top.key === 'params') {
        this.paramsStart = top.valueStart
        this.paramsEnd = top.valueEnd
      }
    }
    if (this.params === undefined) return
    const inner = new Members(text, this.paramsStart)
    seen = 0
    while (inner.next()) {
      seen = withBit(seen, inner.key, paramsNames)
      if (inner.key === 'name') {
        this.nameStart = inner.valueStart
        this.nameEnd = inner.valueEnd
      } else if (inner.key === 'uri') {
        this.uriStart = inner.valueStart
        this.uriEnd = inner.valueEnd
      } else if (inner.key === 'arguments') {
        this.argumentsStart = inner.valueStart
        this.argumentsEnd = inner.valueEnd
      } else if (inner.key === '_meta') {
        this.metaStart = inner.valueStart
        this.metaEnd = inner.valueEnd
      }
    }
  }
}

/** Reserves the memory of a body. */
interface BytesHolder {
  /** Reserves this number of additional bytes. Throws if that exceeds the limit. */
  hold(bytes: number): void
}

/**
 * The number of copies of a body that a request holds at the same time: its bytes, its text, its values, and the
 * relayed text.
 */
export const COPIES = 4
/** The same number for a body with a character beyond Latin-1, for which each copy takes two bytes per character. */
const WIDE_COPIES = 7
/** UTF-8's byte order mark. */
const MARK = Buffer.from('\ufeff')

/**
 * Parses a request body after `holder` has reserved its bytes. Throws `parse_error` if it is not JSON in UTF-8, and
 * `invalid_message` if it is not one JSON-RPC 2.0 message that every parser reads in the same way. Returns a batch as
 * the texts of its elements.
 */
export function parseMessage(body: Buffer, holder?: BytesHolder): Message | readonly string[] {
  if (!isUtf8(body)) throw new PublicError('parse_error', { message: 'The body is not UTF-8.' })
  // A byte order mark before JSON may be ignored (RFC 8259, section 8.1). Official servers do so.
  const text = body.toString(
    'utf8',
    body[0] === MARK[0] && body.subarray(0, MARK.length).equals(MARK) ? MARK.length : 0,
  )
  let value: unknown
  if (body.length > SMALL) {
    const copies = text.length === body.length ? COPIES : WIDE_COPIES
    const bytes = body.length * copies + measureStructure(text)
    holder?.hold(bytes)
  }
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new PublicError('parse_error', { cause })
  }
  if (Array.isArray(value)) return splitElements(text)
  const message = readMessage(text, value)
  if (body.length <= SMALL) message.keepMemory(body)
  return message
}

/**
 * The size below which the fixed memory of a request covers its body. Such a body can't be nested too deeply either.
 */
const SMALL = 2000

function measureStructure(text: string): number {
  try {
    return structureBytes(text)
  } catch (error) {
    throw new PublicError('parse_error', { message: `The body is ${(error as Error).message}.` })
  }
}

/** Parses one element of a batch. Throws `invalid_message`. */
export const parseElement = (text: string): Message => readMessage(text, parseJson(text))

/** The refusal of a request whose id was readable, so that the answer contains it. */
export class InvalidRequest extends PublicError {
  /** JSON text. */
  readonly id: string

  constructor({ code, message }: PublicError, id: string) {
    super(code, { message })
    this.id = id
  }
}

function readMessage(text: string, value: unknown): Message {
  if (!isObject(value)) throw new PublicError('invalid_message')
  try {
    if (value['params'] !== null || !('method' in value)) return new Message(text, value)
    return new Message(withEmptyParams(text), { ...value, params: {} })
  } catch (error) {
    const id = 'method' in value && isId(value['id']) ? findSingleId(text) : undefined
    throw id !== undefined && error instanceof PublicError ? new InvalidRequest(error, id) : error
  }
}

/** Returns the id (JSON text) of a request; undefined if it occurs twice or is too long. */
function findSingleId(text: string): string | undefined {
  const members = new Members(text, skipSpace(text, 0))
  let id: string | undefined
  while (members.next()) {
    if (foldName(members.key) !== 'id') continue
    if (id !== undefined || members.value.length > LONGEST_ID) return undefined
    id = members.value
  }
  return id
}

/** Adds empty params. Some clients write null for omitted params, but functions that read the text expect an object. */
function withEmptyParams(text: string): string {
  const members = new Members(text, skipSpace(text, 0))
  while (members.next())
    if (members.key === 'params') return `${text.slice(0, members.valueStart)}{}${text.slice(members.valueEnd)}`
  return text
}

function splitElements(text: string): string[] {
  const elements = new Elements(text, skipSpace(text, 0))
  const texts: string[] = []
  while (elements.next()) texts.push(elements.value)
  return texts
}

/** Tells whether a value is allowed as the id of a request (MCP, base protocol). */
export const isId = (value: unknown): value is string | number => typeof value === 'string' || typeof value === 'number'

function checkShape(value: Record<string, unknown>, kind: Message['kind']): void {
  if (value['jsonrpc'] !== '2.0') throw new PublicError('invalid_message', { message: 'jsonrpc must be "2.0".' })
  if (kind === 'response') {
    if (!('result' in value) && !('error' in value)) throw new PublicError('invalid_message')
    return
  }
  if (typeof value['method'] !== 'string' || value['method'] === '')
    throw new PublicError('invalid_message', { message: 'method must be a string.' })
  const { id, params } = value
  if (kind === 'request' && !isId(id))
    throw new PublicError('invalid_message', { message: 'id must be a string or a number.' })
  if (params !== undefined && !isObject(params))
    throw new PublicError('invalid_message', { message: 'params must be an object.' })
}

/**
 * Adds the bit of a name. Parsers disagree on which of two members with the same name counts, and some ignore case. A
 * call that the gateway routes by one of them and a backend executes by the other would pass every filter, so such a
 * message is refused.
 */
function withBit(seen: number, key: string, names: Names): number {
  const exact = names.exact.get(key)
  const bit = exact ?? names.folded.get(foldName(key))
  if (bit === undefined) return seen
  if (exact === undefined || (seen & bit) !== 0)
    throw new PublicError('invalid_message', {
      message: `${JSON.stringify(key)} appears twice, or not in its right spelling.`,
    })
  return seen | bit
}

/**
 * Tells whether a progress notification (`params`, any JSON value) has the token of this call, which may be returned as
 * text.
 */
export function isAboutCall(params: unknown, { meta }: Message): boolean {
  const [asked, told] = [meta?.['progressToken'], isObject(params) ? params['progressToken'] : undefined]
  return isId(asked) && isId(told) && String(asked) === String(told)
}

/** The key of `_meta` that names the task to which a message belongs (2025-11-25, tasks). */
export const RELATED_TASK_KEY = 'io.modelcontextprotocol/related-task'
/** The prefix of `_meta` keys that describe one hop of the modern era. They must not be forwarded. */
const HOP_PREFIX = 'io.modelcontextprotocol/'

/** The changes to a call for the backend. Absent parts stay byte for byte. */
export interface Rewrite {
  /** The id at the backend, as JSON text. */
  readonly id: string | undefined
  /** The tool's name at the backend, as JSON text. */
  readonly name: string | undefined
  /** The whole `_meta` as JSON text; null removes it. */
  readonly meta: string | null | undefined
  /**
   * A trace context that replaces the client's in `_meta`. A server on standard input has no headers to get it from.
   */
  readonly trace?: TraceContext | undefined
}

/** Builds the body for the backend: the client's own text with the rewritten members. */
export function rewriteCall(message: Message, rewrite: Rewrite): string {
  const { text } = message
  const { id, name, trace } = rewrite
  const isPutIn =
    trace !== undefined && rewrite.meta === undefined && message.meta !== undefined && goesFirst(message, trace)
  const meta = trace === undefined || isPutIn ? rewrite.meta : metaWithTrace(message, rewrite.meta, trace)
  const isNew = meta !== undefined && message.metaStart === -1
  if (meta === null || (isNew && message.paramsStart === -1)) return rewriteParams(message, { id, name, meta })
  // Members may be in any order. A message has at most these three.
  const cuts: Cut[] = []
  if (id !== undefined) cuts.push([message.idStart, message.idEnd, id])
  if (name !== undefined) cuts.push([message.nameStart, message.nameEnd, name])
  if (isNew) cuts.push(newMeta(message, meta))
  else if (meta !== undefined) cuts.push([message.metaStart, message.metaEnd, meta])
  if (isPutIn) {
    const inside = message.metaStart + 1
    cuts.push([inside, inside, firstMember(trace, text[skipSpace(text, inside)])])
  }
  return replaceParts(text, cuts)
}

/** Returns the text with these parts replaced, which may be in any order. */
function replaceParts(text: string, cuts: Cut[]): string {
  if (!isOrdered(cuts)) cuts.sort(byStart)
  let out = ''
  let from = 0
  for (const [start, end, value] of cuts) {
    out += text.slice(from, start) + value
    from = end
  }
  return out + text.slice(from)
}

type Cut = readonly [start: number, end: number, value: string]

/** Adds `_meta` (JSON text) as the last member of params that have none. */
function newMeta({ text, paramsStart, paramsEnd }: Message, meta: string): Cut {
  const isFirst = text[skipSpace(text, paramsStart + 1)] === '}'
  const end = paramsEnd - 1
  return [end, end, `${isFirst ? '' : ','}"_meta":${meta}`]
}

const byStart = (a: Cut, b: Cut) => a[0] - b[0]

/** Tells whether the cuts are sorted. Most clients send id, name and `_meta` in this order. */
function isOrdered(cuts: readonly Cut[]): boolean {
  for (let index = 1; index < cuts.length; index++)
    if ((cuts[index] as Cut)[0] < (cuts[index - 1] as Cut)[0]) return false
  return true
}

/**
 * Tells whether a trace context can be inserted at the beginning of `_meta` without reading the rest, because `_meta`
 * has none.
 */
const goesFirst = ({ meta }: Message, { tracestate }: TraceContext): boolean =>
  tracestate === undefined && meta?.['traceparent'] === undefined && meta?.['tracestate'] === undefined

/** Writes a trace context as the first member of an object, whose text continues with `rest`. */
const firstMember = ({ traceparent }: TraceContext, rest: string | undefined): string =>
  `"traceparent":"${traceparent}"${rest === '}' ? '' : ','}`

function rewriteParams(message: Message, { id, name, meta }: Omit<Rewrite, 'trace'>): string {
  const { text } = message
  const params = editObject(text.slice(message.paramsStart, message.paramsEnd), {
    ...(name === undefined ? {} : { name }),
    _meta: meta ?? undefined,
  })
  const cuts: Cut[] = [[message.paramsStart, message.paramsEnd, params]]
  if (id !== undefined) cuts.push([message.idStart, message.idEnd, id])
  return replaceParts(text, cuts)
}

/** Returns the request without the `inputResponses` of a modern client, which a legacy backend does not know. */
export function withoutResponses(message: Message): Message {
  if (message.params?.['inputResponses'] === undefined) return message
  const { text, paramsStart, paramsEnd } = message
  return withParams(message, editObject(text.slice(paramsStart, paramsEnd), { inputResponses: undefined }))
}

/** Returns the request with other params, given as JSON text. */
export function withParams({ text, paramsStart, paramsEnd }: Message, params: string): Message {
  const edited = text.slice(0, paramsStart) + params + text.slice(paramsEnd)
  return new Message(edited, JSON.parse(edited) as Record<string, unknown>)
}

/**
 * Returns `_meta` as JSON text without the keys of the modern hop, for a legacy backend. A backend with both eras would
 * treat a request with a protocol version in `_meta` as modern. Returns undefined if nothing changes, and null if
 * nothing is left.
 */
export function metaForLegacy(message: Message): string | null | undefined {
  if (message.metaStart === -1) return undefined
  const members = new Members(message.text, message.metaStart)
  const kept: string[] = []
  let dropped = false
  while (members.next()) {
    if (members.key.startsWith(HOP_PREFIX)) dropped = true
    else kept.push(message.text.slice(members.keyStart, members.valueEnd))
  }
  if (!dropped) return undefined
  return kept.length === 0 ? null : `{${kept.join(',')}}`
}

/** Returns `_meta` as JSON text with a trace context in place of the client's. `meta`: its value before this change. */
function metaWithTrace(message: Message, meta: Rewrite['meta'], trace: TraceContext): Rewrite['meta'] {
  if (message.paramsStart === -1 || (message.metaStart !== -1 && message.meta === undefined)) return meta
  const own = message.metaStart === -1 ? '{}' : message.text.slice(message.metaStart, message.metaEnd)
  const text = meta === null ? '{}' : (meta ?? own)
  if (goesFirst(message, trace)) return `{${firstMember(trace, text[skipSpace(text, 1)])}${text.slice(1)}`
  const { traceparent, tracestate } = trace
  return editObject(text, {
    traceparent: JSON.stringify(traceparent),
    tracestate: tracestate === undefined ? undefined : JSON.stringify(tracestate),
  })
}

/** Returns `_meta` as JSON text with the keys that a modern backend requires, for a legacy client's call. */
export function metaForModern(message: Message, envelope: Readonly<Record<string, string>>): string {
  const meta = message.metaStart === -1 ? '{}' : message.text.slice(message.metaStart, message.metaEnd)
  // A modern backend does not know tasks of the other era.
  return editObject(meta, { ...envelope, [RELATED_TASK_KEY]: undefined })
}

/** The `_meta` of a request: JSON text of an object, and its value. */
export interface Meta {
  readonly text: string
  readonly value: unknown
}

/**
 * Further members of `params`, as JSON text: the client's answers to questions, and the request to run the call as a
 * task.
 */
export type MoreParams = Readonly<Partial<Record<'requestState' | 'inputResponses' | 'task', string>>>

export interface ToolCallParts {
  /** JSON text. */
  readonly id: string
  readonly name: string
  /** JSON text of an object. */
  readonly arguments: string
  /** Undefined if it has none. */
  readonly meta: Meta | undefined
  readonly more?: MoreParams
}

/**
 * Builds a `tools/call` of the gateway itself. Its parts are valid, so it needs no parsing. Throws a SyntaxError if the
 * arguments are nested too deeply.
 */
export function toolCall({ id, name, arguments: args, meta, more = {} }: ToolCallParts): Message {
  const params: Record<string, unknown> = { name, arguments: parseJson(args) }
  const idStart = HEAD.length
  const idEnd = idStart + id.length
  const paramsStart = idEnd + METHOD.length
  const nameStart = paramsStart + NAME.length
  let text = `${HEAD}${id}${METHOD}${NAME}${JSON.stringify(name)}`
  const nameEnd = text.length
  const argumentsStart = nameEnd + ARGUMENTS.length
  const argumentsEnd = argumentsStart + args.length
  text += ARGUMENTS + args
  let metaStart = -1
  let metaEnd = -1
  if (meta !== undefined) {
    metaStart = argumentsEnd + META.length
    metaEnd = metaStart + meta.text.length
    text += META + meta.text
    params['_meta'] = meta.value
  }
  for (const [key, value] of Object.entries(more)) {
    text += `,"${key}":${value}`
    params[key] = parseJson(value)
  }
  text += '}}'
  const places: Places = {
    ...{ idStart, idEnd, paramsStart, paramsEnd: text.length - 1, nameStart, nameEnd },
    ...{ uriStart: -1, uriEnd: -1, argumentsStart, argumentsEnd, metaStart, metaEnd },
  }
  // This id only marks the value as a request.
  return new Message(text, { id, method: 'tools/call', params }, places)
}

const HEAD = '{"jsonrpc":"2.0","id":'
const METHOD = ',"method":"tools/call","params":'
const NAME = '{"name":'
const ARGUMENTS = ',"arguments":'
const META = ',"_meta":'
