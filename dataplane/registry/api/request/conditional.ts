/** What decides an answer: the registry's revision, and which of its entries the caller sees. */
export interface Revision {
  readonly revision: string
  readonly tag: string
}

/** An ETag. It is weak: the same answer may come compressed or not. */
export function etagOf(revision: Revision): string {
  return `W/${opaqueTag(revision)}`
}

/** Whether an `If-None-Match` names this revision, or any by `*` (RFC 9110 section 13.1.2, weak comparison). */
export function isUnchanged(ifNoneMatch: string | undefined, revision: Revision): boolean {
  if (ifNoneMatch === undefined) return false
  const tags = ifNoneMatch.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.includes(opaqueTag(revision)) || ifNoneMatch.trim() === '*'
}

const opaqueTag = ({ revision, tag }: Revision) => (tag === '' ? `"${revision}"` : `"${revision}.${tag}"`)
