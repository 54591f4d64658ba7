/** The interface for telemetry. Until telemetry is configured it does nothing, and allocates nothing. */

/** A kind of work that is observed. Names and attributes come from configuration and catalogs, never from callers. */
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
  readonly tool?: string
}

/** The name of an error without a code of ours (semantic conventions, `error.type`). */
export const OTHER_ERROR = '_OTHER'

export interface Outcome {
  readonly result: 'ok' | 'error' | 'denied'
  readonly code?: string
  /** Code of the JSON-RPC error in the answer. Backends choose theirs: it is no label of metrics. */
  readonly rpcCode?: number | undefined
  /** HTTP status, if that determines the outcome. */
  readonly status?: number | undefined
}

/** `error.type` of a tool's error result (semantic conventions for MCP). */
export const TOOL_ERROR = 'tool_error'

/** The headers that W3C Trace Context propagates. */
export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string | undefined
}

/** The attributes of a span. Values may come from callers: they are cut, and they are no labels of metrics. */
export type Details = Readonly<Record<string, string | number | boolean | undefined>>

/** The origin of an operation. Its functions are called only if an answer is needed. */
export interface Origin {
  /** The enclosing operation in this process. */
  readonly parent?: Observation | undefined
  /** `performance.now()` of its beginning; absent: now. */
  readonly startedAt?: number
  /** The trace context from outside, unchecked. */
  incoming?(): { readonly traceparent: unknown; readonly tracestate?: unknown } | undefined
  details?(): Details
  /** Returns the target of the operation once it is known to exist: the name of a tool or prompt. Called at the end. */
  target?(): string | undefined
}

export interface Observation {
  /** The trace context for calls made during the operation; undefined if nothing is traced. */
  readonly trace: TraceContext | undefined
  /** True if details are recorded. If not, callers need not compute them. */
  readonly isTold: boolean
  /** True if there is a span. If not, callers need not compute details that only spans have. */
  readonly isSampled: boolean
  /** Records a step that lasted from one `performance.now()` to another. */
  step(name: string, from: number, to: number, details?: Details): void
  /** Adds details that became known after the beginning. */
  tell(details: Details): void
  /** Links the operation to an earlier one with this trace context, which it continues; undefined: to none. */
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

export const observeNothing: Observe = () => nothing
