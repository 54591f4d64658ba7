import type { TraceContext } from '../../telemetry/observe.ts'
import { editObject, Members, skipSpace } from './json.ts'
import { Message } from './message.ts'
import { RELATED_TASK_KEY } from './tasks.ts'

/** The prefix of `_meta` keys that describe one hop of the modern era. They must not be forwarded. */
const HOP_PREFIX = 'io.modelcontextprotocol/'

/** The changes to a call for the backend. Absent parts stay byte for byte. */
interface Rewrite {
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
  cuts.sort(byStart)
  let out = ''
  let from = 0
  for (const [start, end, value] of cuts) {
    out += text.slice(from, start) + value
    from = end
  }
  return out + text.slice(from)
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
