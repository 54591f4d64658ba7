import { hash } from 'node:crypto'
import type { IncomingVersion } from '../../catalog/entry.ts'
import { precedence } from '../../catalog/precedence.ts'
import { searchText } from '../../catalog/search-text.ts'

/** The columns of a version that follow from what came in, whichever way it came. */
export function incomingColumns(incoming: IncomingVersion) {
  const { type, name, version, title, description } = incoming
  return {
    type,
    name,
    version,
    precedence: precedence(version),
    status: incoming.status,
    status_message: incoming.statusMessage,
    status_changed_at: incoming.statusChangedAt,
    published_at: incoming.publishedAt,
    title,
    description,
    search_text: searchText(name, title, description),
    content_hash: contentHash(incoming),
    other_meta: incoming.others,
    bytes: bytesOf(incoming.document) + bytesOf(incoming.statusMessage) + bytesOf(incoming.others),
  }
}

/** Of a text in UTF-8; 0 where there is none. */
export const bytesOf = (text: string | null): number => (text === null ? 0 : Buffer.byteLength(text))

/** Over everything that came in, so that an equal hash means an equal row. */
function contentHash(incoming: IncomingVersion): string {
  const { document, others, status, statusMessage, statusChangedAt, publishedAt, claims } = incoming
  const rest = JSON.stringify([status, statusMessage, statusChangedAt, publishedAt, others, claims])
  return hash('sha256', `${rest}\n${document}`, 'base64url')
}
