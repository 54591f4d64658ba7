import type { IncomingHttpHeaders } from 'node:http'
import type { TraceContext } from '../../telemetry/observe.ts'

/**
 * Adds the headers of a client's request that the configuration passes on (`names`, in lower case) to those of a
 * request to a backend, a flat list. What is there already stays: the configuration's own headers win.
 */
export function passHeaders(headers: string[], names: readonly string[], from: IncomingHttpHeaders): void {
  for (const name of names) {
    const value = from[name]
    if (value === undefined || isThere(headers, name)) continue
    headers.push(name, Array.isArray(value) ? value.join(', ') : value)
  }
}

/** Adds a header to those of a request, a flat list, unless it is there: one of the configuration wins. */
export function addHeader(headers: string[], name: string, value: string): void {
  if (!isThere(headers, name)) headers.push(name, value)
}

/** Adds the trace context of a call to the headers of its request, a flat list. */
export function addTraceHeaders(headers: string[], trace: TraceContext | undefined): void {
  if (trace === undefined || isThere(headers, 'traceparent')) return
  headers.push('traceparent', trace.traceparent)
  if (trace.tracestate !== undefined) headers.push('tracestate', trace.tracestate)
}

function isThere(headers: readonly string[], name: string): boolean {
  for (let index = 0; index < headers.length; index += 2) {
    const header = headers[index] as string
    // A name of another length needs no look at its letters.
    if (header.length === name.length && header.toLowerCase() === name) return true
  }
  return false
}
