import { hash } from 'node:crypto'
import { createHttpGet } from './http-get.ts'
import { parseCatalog } from './parse.ts'
import { LARGEST_FILE } from './read-file.ts'
import type { Content, Pass, PlaceOf } from './source.ts'

/** What is known of the bytes that were read last. */
interface Mark {
  readonly hash: string
  readonly etag?: string
  readonly modified?: string
}

/**
 * Fetches a registry file. A server that knows validators (RFC 9110 section 13.1) is asked whether it has changed; bytes
 * that are the same all the same are not parsed.
 */
export async function readUrl(place: PlaceOf<'url'>, { mark, signal }: Pass): Promise<Content | undefined> {
  const before = mark === undefined ? undefined : (JSON.parse(mark) as Mark)
  await using get = createHttpGet({ ...place, maxBytes: LARGEST_FILE, signal })
  const { status, headers, bytes } = await get(place.url, {
    ...(before?.etag !== undefined && { 'if-none-match': before.etag }),
    ...(before?.modified !== undefined && { 'if-modified-since': before.modified }),
  })
  if (status === 304 && before !== undefined) return undefined
  const contentHash = hash('sha256', bytes, 'base64url')
  if (contentHash === before?.hash) return undefined

  const { etag, 'last-modified': modified } = headers
  const next = {
    hash: contentHash,
    ...(typeof etag === 'string' && { etag }),
    ...(typeof modified === 'string' && { modified }),
  }
  return { complete: true, batches: [parseCatalog(bytes)], mark: () => JSON.stringify(next satisfies Mark) }
}
