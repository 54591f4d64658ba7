/**
 * The interface for telemetry: every request, backend call, decision, exchange, sync and question to a store is reported
 * to it.
 * Until telemetry is configured it does nothing, and allocates nothing.
 */

/** What is being done. Names and attributes come from configuration and catalogs, never from callers. */
export interface Operation {
  readonly kind:
    | 'request'
    | 'auth-request'
    | 'provider'
    | 'inner-call'
    | 'step'
    | 'backend-call'
    | 'decision'
    | 'exchange'
    | 'limit'
    | 'sync'
    | 'store'
  /** Low-cardinality name: a route, a JSON-RPC method, a source. */
  readonly name: string
  readonly attributes?: Readonly<Record<string, string | number | boolean>>
  /** The tool that is called, as its backend calls it: one that is in the catalog. */
  readonly tool?: string
}

/** What an error is called that has no code of ours (semantic conventions, `error.type`). */
export const OTHER_ERROR = '_OTHER'

export interface Outcome {
  readonly result: 'ok' | 'error' | 'denied'
  /** Code from the error table where the result isn't ok. */
  readonly code?: string
  /** Code of the JSON-RPC error that is the answer. Backends choose theirs: it is no label of metrics. */
  readonly rpcCode?: number | undefined
  /** Status of HTTP, where that is what tells how it ended. */
  readonly status?: number | undefined
}

/** `error.type` of a tool's error result (semantic conventions for MCP). */
export const TOOL_ERROR = 'tool_error'

/** What W3C Trace Context hands from one to the next. */
export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string | undefined
}

/** What a span says. Values may come from callers: they are cut, and they are no labels of metrics. */
export type Details = Readonly<Record<string, string | number | boolean | undefined>>

/** Where an operation comes from. Its functions are called only where an answer is needed. */
export interface Origin {
  /** What it is a part of, in this process. */
  readonly parent?: Observation | undefined
  /** `performance.now()` of its beginning; absent: now. */
  readonly startedAt?: number
  /** The trace context that came from outside, unchecked. */
  incoming?(): { readonly traceparent: unknown; readonly tracestate?: unknown } | undefined
  details?(): Details
  /** What the operation is done to, once it is known to exist: the name of a tool or prompt. Asked at the end. */
  target?(): string | undefined
}

/** An operation under way. */
export interface Observation {
  /** For whoever is asked in the course of it; undefined where nothing is traced. */
  readonly trace: TraceContext | undefined
  /** Whether anything is told of it: what is told need not be found out for others. */
  readonly isTold: boolean
  /** Whether it has a span: what spans alone tell need not be found out for others. */
  readonly isSampled: boolean
  /** A step of it that lasted from one `performance.now()` to another. */
  step(name: string, from: number, to: number, details?: Details): void
  /** What is known of it later than at its beginning. */
  tell(details: Details): void
  /** It goes on with what was begun under this trace context, by whoever came before; undefined: with nothing. */
  link(traceparent: string | undefined): void
  /** Called once. */
  end(outcome: Outcome): void
}

export type Observe = (operation: Operation, origin?: Origin) => Observation

const nothing: Observation = {
  trace: undefined,
  isTold: false,
  isSampled: false,
  step() {
    // Nothing is observed.
  },
  tell() {
    // Nothing is observed.
  },
  link() {
    // Nothing is observed.
  },
  end() {
    // Nothing is observed.
  },
}

/** Observes nothing. */
export const observeNothing: Observe = () => nothing
