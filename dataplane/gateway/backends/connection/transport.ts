import type { Dispatcher } from 'undici'

/** What requests to a backend go through; whatever its transport, it looks like Streamable HTTP. */
export interface Transport extends Pick<Dispatcher, 'dispatch'> {
  /** Dispatches what is answered by a stream that goes on until one side ends it: it takes no connection from calls. */
  stream: Dispatcher['dispatch']
  /** Waits for what is on its way, then ends the connections. */
  close(): Promise<void>
  /** Ends the connections now. */
  destroy(): Promise<void>
}

/** Each call holds a connection to its backend until it is answered, those that wait for a person as well. */
export const MOST_CALLS = 1024
