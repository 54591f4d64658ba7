import type { Context } from 'hono'

/** Headers of every answer that a registry's revision decides: kept by caches, asked about before each use. */
export function revisionHeaders(revision: string): Record<string, string> {
  return { etag: etagOf(revision), 'cache-control': 'no-cache' }
}

/** 304 where `If-None-Match` names this revision (RFC 9110 section 13.1.2, weak comparison); else undefined. */
export function notModified(c: Context, revision: string | undefined): Response | undefined {
  const header = c.req.header('if-none-match')
  if (header === undefined || revision === undefined) return undefined
  const tags = header.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.includes(`"${revision}"`) ? c.body(null, 304, revisionHeaders(revision)) : undefined
}

/** Weak: the same answer may come compressed or not. */
const etagOf = (revision: string) => `W/"${revision}"`
