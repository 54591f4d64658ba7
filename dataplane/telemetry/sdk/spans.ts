import {
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
import { type Details, type Operation, type Origin, OTHER_ERROR, type Outcome, type TraceContext } from '../observe.ts'
import { attributesOf } from './attributes.ts'
import { sampledBelow, TraceIds, traceIn } from './trace-ids.ts'

type ProviderOptions = NonNullable<ConstructorParameters<typeof TracerProvider>[0]>

interface SpansOptions {
  readonly resource: NonNullable<ProviderOptions['resource']>
  readonly processor: NonNullable<ProviderOptions['spanProcessors']>[number]
  readonly rate: number
  /** Older attribute names as well. */
  readonly older: boolean
  readonly version: string
}

/** What has been done within a span, from one `performance.now()` to another. */
interface Step {
  readonly name: string
  readonly from: number
  readonly to: number
  readonly details: Details | undefined
}

const SAMPLED = 1
/** A header of Trace Context is 55 characters long; later versions may append to it. */
const LONGEST_PARENT = 256
/** W3C Trace Context, section 3.3.1.5: what is longer need not be handed on. */
const LONGEST_STATE = 512
const VISIBLE = /^[\x20-\x7e]*$/
/** Beyond this a text of a caller is cut. */
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

/** A span, or the context that a call has which is not sampled. */
export type Traced = { readonly span: Span; readonly context: TraceContext } | TraceContext

/**
 * Makes spans. Whether there is one is decided before it is made, from the trace id alone: an operation that is not
 * sampled has its context as text and nothing else.
 */
export class Spans {
  readonly #provider: TracerProvider
  readonly #tracer: Tracer
  readonly #sampledBelow: number
  readonly #ids = new TraceIds()
  readonly #older: boolean
  /** The id of the trace that is begun next. */
  #nextTrace = ''

  constructor({ resource, processor, rate, older, version }: SpansOptions) {
    this.#older = older
    this.#sampledBelow = sampledBelow(rate)
    this.#provider = new TracerProvider({
      resource,
      spanProcessors: [processor],
      // What comes here was sampled; under a parent that was, so is its child.
      sampler: new ParentBasedSampler({ root: { shouldSample: () => ({ decision: 2 }), toString: () => 'decided' } }),
      idGenerator: {
        generateTraceId: () => this.#nextTrace,
        generateSpanId: () => this.#ids.span(),
      },
      spanLimits: { attributeValueLengthLimit: LONGEST_VALUE, attributeCountLimit: 64 },
    })
    this.#tracer = this.#provider.getTracer('portico', version)
  }

  /** Begins what an operation is traced by; `parent` is that of the operation which it is a part of. */
  begin(operation: Operation, origin: Origin | undefined, parent: Traced | undefined, startedAt: number): Traced {
    if (parent !== undefined)
      return 'span' in parent ? this.#start(operation, origin, parent.span.spanContext(), startedAt) : parent
    const incoming = incomingOf(origin)
    if (incoming !== undefined) {
      if ((incoming.traceFlags & SAMPLED) !== 0) return this.#start(operation, origin, incoming, startedAt)
      return contextOf(incoming)
    }
    const { traceparent, share } = this.#ids.next()
    if (share >= this.#sampledBelow) return { traceparent }
    this.#nextTrace = traceIn(traceparent)
    return this.#start(operation, origin, undefined, startedAt)
  }

  #start(operation: Operation, origin: Origin | undefined, parent: SpanContext | undefined, startTime: number): Traced {
    const { kind, name } = operation
    const context = parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent)
    const attributes = attributesOf({ ...operation.attributes, ...origin?.details?.() }, this.#older)
    const span = this.#tracer.startSpan(name, { kind: kinds[kind], attributes, startTime }, context)
    return { span, context: contextOf(span.spanContext()) }
  }

  /** A step of a span, which has ended. */
  step(parent: Span, { name, from, to, details = {} }: Step): void {
    const context = trace.setSpanContext(ROOT_CONTEXT, parent.spanContext())
    const attributes = attributesOf(details, this.#older)
    this.#tracer.startSpan(name, { startTime: from, attributes }, context).end(to)
  }

  tell(span: Span, details: Details): void {
    span.setAttributes(attributesOf(details, this.#older))
  }

  /** Links a span to that of a trace context of our own making. */
  link(span: Span, traceparent: string): void {
    const context = parseTraceParent(traceparent)
    if (context !== null) span.addLink({ context })
  }

  /** `name`: what the span is called in the end, where that is another name than in the beginning. */
  end(span: Span, { result, code, rpcCode, status }: Outcome, at: number, name: string | undefined): void {
    if (name !== undefined) span.updateName(name.slice(0, LONGEST_VALUE))
    // The semantic conventions have it as text, since gRPC has names.
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

/** The context from outside, as far as it is a valid one. */
function incomingOf(origin: Origin | undefined): SpanContext | undefined {
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

function contextOf({ traceId, spanId, traceFlags, traceState }: SpanContext): TraceContext {
  const traceparent = `00-${traceId}-${spanId}-0${traceFlags & SAMPLED}`
  const tracestate = traceState?.serialize()
  return tracestate === undefined || tracestate === '' ? { traceparent } : { traceparent, tracestate }
}
