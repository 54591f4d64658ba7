import { parseBytes } from '../../mcp/parse.ts'
import { requestText } from '../../mcp/rpc-text.ts'
import { type ResourceWatch, updatedUri } from '../session/resource-updates.ts'
import type { Backend } from './backend.ts'

/** A resource to watch: its backend, and the backend's own URI. */
interface Watched {
  readonly backend: Backend
  readonly own: string
}

/** Watches resources of any backends for a modern client. `onUpdate` gets the backend's own URI. */
export function watchResources(
  places: readonly Watched[],
  onUpdate: (uri: string, backend: Backend) => void,
): readonly ResourceWatch[] {
  const byBackend = new Map<Backend, string[]>()
  for (const { backend, own } of places) {
    const uris = byBackend.get(backend) ?? []
    uris.push(own)
    byBackend.set(backend, uris)
  }
  return [...byBackend].map(([backend, uris]) => {
    const tell = (uri: string) => onUpdate(uri, backend)
    return backend.era?.era === 'legacy' ? watchLegacy(backend, uris, tell) : backend.watched.add(uris, tell)
  })
}

/** Watches resources at a legacy backend, in a separate session. */
function watchLegacy(backend: Backend, uris: readonly string[], onUpdate: (uri: string) => void): ResourceWatch {
  const session = backend.newSession()
  const begin = async () => {
    await backend.caller?.needed()
    await session.open()
    session.inbox.subscribe((bytes) => {
      const uri = updatedUri(parseBytes(bytes))
      if (uri !== undefined) onUpdate(uri)
    })
    await session.inbox.subscribing
    await Promise.allSettled(
      uris.map((uri) => session.post(requestText(session.ownId(), 'resources/subscribe', { uri }))),
    )
    // The session that replaces a lost one has no subscriptions.
    session.onOpened = () => {
      for (const uri of uris) session.resubscribe(uri)
    }
  }
  const active = begin().catch(() => {
    // These resources get no updates without a session. The client's own requests report the backend's error.
  })
  return { active, stop: () => backend.closeSession(session) }
}
