import { isObject } from '../mcp/message.ts'
import { requestText } from '../mcp/rpc-text.ts'
import type { Backend } from './backend.ts'
import type { Link } from './link.ts'

/** What goes on until it is stopped. */
export interface ResourceWatch {
  stop(): void
}

/** Watches resources for a caller of the modern era, at whichever backends they are. */
export function watchResources(
  places: readonly (readonly [backend: Backend | undefined, uri: string])[],
  onUpdate: (uri: string) => void,
): readonly ResourceWatch[] {
  const byBackend = new Map<Backend, string[]>()
  for (const [backend, uri] of places) {
    if (backend === undefined) continue
    const uris = byBackend.get(backend) ?? []
    uris.push(uri)
    byBackend.set(backend, uris)
  }
  return [...byBackend].map(([backend, uris]) =>
    backend.era?.era === 'legacy' ? watchLegacy(backend.link(), uris, onUpdate) : backend.watched.add(uris, onUpdate),
  )
}

/** Watches resources at a legacy backend, in a session of its own. */
function watchLegacy(link: Link, uris: readonly string[], onUpdate: (uri: string) => void): ResourceWatch {
  link
    .open()
    .then(() => {
      link.hear((bytes) => {
        const uri = updatedUri(parse(bytes))
        if (uri !== undefined) onUpdate(uri)
      })
      for (const uri of uris) link.send(requestText(`portico-watch-${link.nextId()}`, 'resources/subscribe', { uri }))
    })
    .catch(() => {})
  return { stop: () => link.backend.closeLink(link) }
}

/** The URI that a message says has changed. */
export function updatedUri(message: unknown): string | undefined {
  if (!isObject(message) || message['method'] !== 'notifications/resources/updated') return undefined
  const { params } = message
  return isObject(params) && typeof params['uri'] === 'string' ? params['uri'] : undefined
}

export function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}
