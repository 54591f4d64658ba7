import { type Dispatcher, Pool } from 'undici'
import { type ConnectOptions, guardedConnect } from './connect.ts'

export { AddressRefused } from './connect.ts'

export interface DispatcherOptions extends ConnectOptions {
  /** `https://host:port` of the one origin that is called. */
  readonly origin: string
  /** Most connections at a time; default 128. Open streams count. */
  readonly connections?: number
  /** How long an idle connection is kept; default 30 s. */
  readonly keepAliveMs?: number
}

/**
 * A pool of keep-alive connections to one origin. It follows no redirects. Waits are not bounded here but for the
 * connection itself: a stream may be silent for hours, and callers have their own deadlines.
 */
export function createDispatcher({ origin, connections, keepAliveMs, ...connect }: DispatcherOptions): Dispatcher {
  return new Pool(origin, {
    connect: guardedConnect(connect),
    connections: connections ?? 128,
    pipelining: 1,
    keepAliveTimeout: keepAliveMs ?? 30_000,
    headersTimeout: 0,
    bodyTimeout: 0,
  })
}
