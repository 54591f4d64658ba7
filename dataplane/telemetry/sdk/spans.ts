import { randomFillSync } from 'node:crypto'
import {
  type Attributes,
  createTraceState,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { parseTraceParent } from '@opentelemetry/core'
import { ParentBasedSampler, TracerProvider } from '@opentelemetry/sdk-trace'
import { withoutCredentials, withoutUrlSecrets } from '../../config/check/url.ts'
import { type Details, type Operation, type Origin, OTHER_ERROR, type Outcome, type TraceContext } from '../observe.ts'

type ProviderOptions = NonNullable<ConstructorParameters<typeof TracerProvider>[0]>

interface SpansOptions {
  readonly resource: NonNullable<ProviderOptions['resource']>
  readonly processor: NonNullable<ProviderOptions['spanProcessors']>[number]
  readonly rate: number
  readonly older: boolean
  readonly version: string
}

interface Step {
  readonly name: string
  readonly from: number
  readonly to: number
  readonly details: Details | undefined
}

const SAMPLED = 1
/** A header of Trace Context is 55 characters long; later versions may append to it. */
const LONGEST_PARENT = 256
/** W3C Trace Context, section 3.3.1.5: a longer state need not be propagated. */
const LONGEST_STATE = 512
const VISIBLE = /^[\x20-\x7e]*$/
/** Longer texts of callers are cut. */
const LONGEST_VALUE = 256

const kinds: Readonly<Record<Operation['kind'], SpanKind>> = {
  request: SpanKind.SERVER,
  'auth-request': SpanKind.SERVER,
  provider: SpanKind.CLIENT,
  'inner-call': SpanKind.INTERNAL,
  step: SpanKind.INTERNAL,
  'backend-call': SpanKind.CLIENT,
  decision: SpanKind.INTERNAL,
  exchange: SpanKind.CLIENT,
  limit: SpanKind.INTERNAL,
  sync: SpanKind.INTERNAL,
  store: SpanKind.CLIENT,
}

/** A span, or the context of an operation that is not sampled. */
export type Traced = { readonly span: Span; readonly context: TraceContext } | TraceContext

/** The span attribute names from before the semantic conventions for MCP, by the current ones. */
const OLDER: ReadonlyMap<string, string> = new Map([
  ['gen_ai.prompt.name', 'mcp.prompt.name'],
  ['gen_ai.tool.name', 'mcp.tool.name'],
  ['http.request.method', 'http.method'],
  ['http.response.status_code', 'http.status_code'],
  ['jsonrpc.request.id', 'mcp.request.id'],
  ['mcp.method.name', 'mcp.method'],
  ['mcp.resource.uri', 'mcp.resource.id'],
  ['network.transport', 'mcp.transport'],
  ['rpc.system.name', 'rpc.system'],
  ['url.path', 'http.target'],
  ['url.scheme', 'http.scheme'],
  ['user_agent.original', 'http.user_agent'],
])

/** Shorter names can't be taken for credentials by `withoutCredentials`. */
const SHORTEST_CREDENTIAL = 12
/** Longer texts of callers are cut before they are scanned; the SDK cuts the rest. */
const LOOKED_AT = 4_096

/** The bytes of a trace id and a span id. */
const BYTES = 24
/** The number of ids whose random bytes are made and written out at once. */
const AT_ONCE = 256

/** The offset of a trace id in a `traceparent`, and that of its first span. */
const TRACE_AT = '00-'.length
const SPAN_AT = TRACE_AT + 32 + '-'.length
/** The characters of a `traceparent` (W3C Trace Context, section 3.2). */
const CHARACTERS = SPAN_AT + 16 + '-00'.length

/** The values with which a trace may begin. */
interface NewTrace {
  /** The context of a trace that is not sampled. */
  readonly traceparent: string
  /** The number that decides whether the trace is sampled: as the SDK's `TraceIdRatioBasedSampler` reads the id. */
  readonly share: number
}

/**
 * Makes spans. The trace id alone decides whether there is one. An operation that is not sampled has only its context
 * as text.
 */
export class Spans {
  readonly #provider: TracerProvider
  readonly #tracer: Tracer
  readonly #sampledBelow: number
  readonly #ids = new TraceIds()
  readonly #older: boolean
  #nextTrace = ''

  constructor({ resource, processor, rate, older, version }: SpansOptions) {
    this.#older = older
    this.#sampledBelow = sampledBelow(rate)
    this.#provider = new TracerProvider({
      resource,
      spanProcessors: [processor],
      // Spans that get here are sampled; so is the child of a sampled parent.
      sampler: new ParentBasedSampler({ root: { shouldSample: () => ({ decision: 2 }), toString: () => 'decided' } }),
      idGenerator: {
        generateTraceId: () => this.#nextTrace,
        generateSpanId: () => this.#ids.span(),
      },
      spanLimits: { attributeValueLengthLimit: LONGEST_VALUE, attributeCountLimit: 64 },
    })
    this.#tracer = this.#provider.getTracer('portico', version)
  }

  begin(operation: Operation, origin: Origin | undefined, parent: Traced | undefined, startedAt: number): Traced {
    if (parent !== undefined)
      return 'span' in parent ? this.#start(operation, origin, parent.span.spanContext(), startedAt) : parent
    const incoming = readIncoming(origin)
    if (incoming !== undefined) {
      if ((incoming.traceFlags & SAMPLED) !== 0) return this.#start(operation, origin, incoming, startedAt)
      return formatContext(incoming)
    }
    const { traceparent, share } = this.#ids.next()
    if (share >= this.#sampledBelow) return { traceparent }
    this.#nextTrace = traceIn(traceparent)
    return this.#start(operation, origin, undefined, startedAt)
  }

  #start(operation: Operation, origin: Origin | undefined, parent: SpanContext | undefined, startTime: number): Traced {
    const { kind, name } = operation
    const context = parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent)
    const attributes = buildAttributes({ ...operation.attributes, ...origin?.details?.() }, this.#older)
    const span = this.#tracer.startSpan(name, { kind: kinds[kind], attributes, startTime }, context)
    return { span, context: formatContext(span.spanContext()) }
  }

  step(parent: Span, { name, from, to, details = {} }: Step): void {
    const context = trace.setSpanContext(ROOT_CONTEXT, parent.spanContext())
    const attributes = buildAttributes(details, this.#older)
    this.#tracer.startSpan(name, { startTime: from, attributes }, context).end(to)
  }

  tell(span: Span, details: Details): void {
    span.setAttributes(buildAttributes(details, this.#older))
  }

  /** Links a span to a trace context of our own making. */
  link(span: Span, traceparent: string): void {
    const context = parseTraceParent(traceparent)
    if (context !== null) span.addLink({ context })
  }

  end(span: Span, { result, code, rpcCode, status }: Outcome, at: number, name: string | undefined): void {
    if (name !== undefined) span.updateName(name.slice(0, LONGEST_VALUE))
    // The semantic conventions define it as text, since gRPC has names.
    if (rpcCode !== undefined) span.setAttribute('rpc.response.status_code', String(rpcCode))
    if (status !== undefined) this.tell(span, { 'http.response.status_code': status })
    if (result !== 'ok') {
      span.setAttribute('error.type', code ?? OTHER_ERROR)
      span.setStatus({ code: SpanStatusCode.ERROR })
    }
    span.end(at)
  }

  forceFlush(): Promise<void> {
    return this.#provider.forceFlush()
  }

  shutdown(): Promise<void> {
    return this.#provider.shutdown()
  }
}

function readIncoming(origin: Origin | undefined): SpanContext | undefined {
  const { traceparent, tracestate } = origin?.incoming?.() ?? {}
  if (typeof traceparent !== 'string' || traceparent.length > LONGEST_PARENT) return undefined
  const context = parseTraceParent(traceparent)
  if (context === null) return undefined
  const isState = typeof tracestate === 'string' && tracestate.length <= LONGEST_STATE && VISIBLE.test(tracestate)
  return {
    ...context,
    traceFlags: context.traceFlags & SAMPLED,
    isRemote: true,
    ...(isState && tracestate !== '' ? { traceState: createTraceState(tracestate) } : {}),
  }
}

function formatContext({ traceId, spanId, traceFlags, traceState }: SpanContext): TraceContext {
  const traceparent = `00-${traceId}-${spanId}-0${traceFlags & SAMPLED}`
  const tracestate = traceState?.serialize()
  return tracestate === undefined || tracestate === '' ? { traceparent } : { traceparent, tracestate }
}

/**
 * Converts details to attributes; with `older` under the former names, too. Parts that look like credentials are left
 * out.
 */
function buildAttributes(details: Details, older: boolean): Attributes {
  const attributes: Attributes = {}
  for (const name in details) {
    const value = details[name]
    if (value === undefined) continue
    const told = typeof value === 'string' ? withoutSecrets(value) : value
    attributes[name] = told
    const legacy = older ? OLDER.get(name) : undefined
    if (legacy !== undefined) attributes[legacy] = told
  }
  return attributes
}

function withoutSecrets(text: string): string {
  const plain = text.length < SHORTEST_CREDENTIAL ? text : withoutCredentials(text.slice(0, LOOKED_AT))
  return withoutUrlSecrets(plain)
}

/** Makes ids of traces and spans (W3C Trace Context). Many are written out at once (20 ns instead of 250). */
export class TraceIds {
  readonly #pool = Buffer.alloc(BYTES * AT_ONCE)
  #next = AT_ONCE
  #text = ''
  readonly #spans = Buffer.alloc(8 * AT_ONCE)
  #nextSpan = AT_ONCE

  next(): NewTrace {
    if (this.#next === AT_ONCE) this.#refill()
    const index = this.#next++
    const pool = this.#pool
    const at = index * BYTES
    const share =
      pool.readUInt32BE(at) ^ pool.readUInt32BE(at + 4) ^ pool.readUInt32BE(at + 8) ^ pool.readUInt32BE(at + 12)
    const from = index * CHARACTERS
    return { traceparent: this.#text.slice(from, from + CHARACTERS), share: share >>> 0 }
  }

  #refill(): void {
    const hex = randomFillSync(this.#pool).toString('hex')
    let text = ''
    for (let at = 0; at < hex.length; at += 2 * BYTES)
      text += `00-${hex.slice(at, at + 32)}-${hex.slice(at + 32, at + 2 * BYTES)}-00`
    this.#text = text
    this.#next = 0
  }

  span(): string {
    if (this.#nextSpan === AT_ONCE) {
      randomFillSync(this.#spans)
      this.#nextSpan = 0
    }
    const at = 8 * this.#nextSpan++
    return this.#spans.toString('hex', at, at + 8)
  }
}

/** Returns the trace id in a `traceparent` of ours: 32 hexadecimal digits. */
export const traceIn = (traceparent: string): string => traceparent.slice(TRACE_AT, TRACE_AT + 32)

/** Returns the bound of `share` below which traces are sampled. */
export const sampledBelow = (rate: number): number => (rate >= 1 ? 2 ** 32 : Math.floor(rate * 0xffffffff))
