import { createHash } from 'node:crypto'
import { createBudget } from '../format/budget.ts'
import { readCatalog } from '../format/catalog-reader.ts'
import { openSpool } from '../format/files.ts'
import type { LocationOf, Pass, ReadChange } from '../format/source.ts'
import { withCursor } from '../format/source-error.ts'
import { createHttpGet } from './http-get.ts'

interface UrlCursor {
  readonly hash: string
  readonly etag?: string
  readonly modified?: string
}

/** Fetches a registry file, with a conditional request if possible (RFC 9110 section 13.1). */
export async function pollUrl(location: LocationOf<'url'>, pass: Pass): Promise<ReadChange | undefined> {
  const before = pass.cursor === undefined ? undefined : (JSON.parse(pass.cursor) as UrlCursor)
  const get = pass.parts.use(createHttpGet({ ...location, maxBytes: pass.maxBytes, signal: pass.signal }))
  const spool = await openSpool(pass)
  const digest = createHash('sha256')
  const validators = {
    ...(before?.etag !== undefined && { 'if-none-match': before.etag }),
    ...(before?.modified !== undefined && { 'if-modified-since': before.modified }),
  }
  const { status, headers } = await get(location.url, validators, (piece) => {
    digest.update(piece)
    return spool.write(piece)
  })
  // A 304 means nothing unless the request was conditional.
  if (status === 304 && Object.keys(validators).length > 0) return undefined
  const hash = digest.digest('base64url')
  if (hash === before?.hash) return undefined

  const { etag, 'last-modified': modified } = headers
  const cursor = {
    hash,
    ...(typeof etag === 'string' && { etag }),
    ...(typeof modified === 'string' && { modified }),
  } satisfies UrlCursor
  return async function readContent() {
    const text = JSON.stringify(cursor)
    const batches = readCatalog(spool.read(), createBudget(pass.maxBytes))
    return { complete: true, batches: withCursor(batches, text), cursor: () => text }
  }
}
