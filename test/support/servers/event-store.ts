import type { EventStore } from '@modelcontextprotocol/server'

/** Stores the events of an SDK server's streams, so that a client that has lost one gets the missed events. */
export function createEventStore(): EventStore {
  const events: { readonly stream: string; readonly message: object }[] = []
  return {
    storeEvent: async (stream, message) => String(events.push({ stream, message }) - 1),
    getStreamIdForEventId: async (id) => events[Number(id)]?.stream,
    async replayEventsAfter(id, { send }) {
      const stream = events[Number(id)]?.stream ?? ''
      for (const [at, event] of [...events.entries()].slice(Number(id) + 1))
        if (event.stream === stream && 'jsonrpc' in event.message) await send(String(at), event.message as never)
      return stream
    },
  }
}
