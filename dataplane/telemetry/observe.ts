/**
 * The interface for telemetry: every request, backend call, decision, exchange, sync and reconcile is reported to it.
 * Until telemetry is configured it does nothing, and allocates nothing.
 */

/** What is being done. Attribute values come from configuration and catalogs, never from callers. */
export interface Operation {
  readonly kind: 'request' | 'backend-call' | 'decision' | 'exchange' | 'sync' | 'reconcile'
  /** Low-cardinality name: a route, a JSON-RPC method, a source. */
  readonly name: string
  readonly attributes?: Readonly<Record<string, string | number | boolean>>
}

export interface Outcome {
  readonly result: 'ok' | 'error' | 'denied'
  /** Code from the error table where the result isn't ok. */
  readonly code?: string
}

export type End = (outcome: Outcome) => void
export type Observe = (operation: Operation) => End

const end: End = () => {
  // Nothing is observed.
}

/** Observes nothing. */
export const observeNothing: Observe = () => end
