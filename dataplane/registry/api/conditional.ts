import type { Context } from 'hono'
import type { RegistryEnv } from './operation.ts'

/** What decides an answer: the registry's revision, and which of its entries the caller sees. */
export interface Revision {
  readonly revision: string
  readonly tag: string
}

/**
 * Headers of every answer that a registry's revision decides: kept by caches, asked about before each use. Where callers
 * are told apart, the answer is theirs alone.
 */
export function revisionHeaders(c: Context<RegistryEnv>, revision: Revision): Record<string, string> {
  if (c.var.actor.mode === 'anonymous') return { etag: `W/${etagOf(revision)}`, 'cache-control': 'no-cache' }
  c.header('vary', 'Authorization', { append: true })
  return { etag: `W/${etagOf(revision)}`, 'cache-control': 'private, no-cache' }
}

/** 304 where `If-None-Match` names this revision (RFC 9110 section 13.1.2, weak comparison); else undefined. */
export function notModified(c: Context<RegistryEnv>, revision: Revision): Response | undefined {
  const header = c.req.header('if-none-match')
  if (header === undefined) return undefined
  const tags = header.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.includes(etagOf(revision)) ? c.body(null, 304, revisionHeaders(c, revision)) : undefined
}

/** Its use is weak: the same answer may come compressed or not. */
const etagOf = ({ revision, tag }: Revision) => (tag === '' ? `"${revision}"` : `"${revision}.${tag}"`)
