/** Where a request goes, as it was sent: nothing is decoded or resolved in the path. */
interface RequestTarget {
  readonly path: string
  readonly query: URLSearchParams
}

const NO_QUERY = new URLSearchParams()

/** Reads a request's target, which may come with scheme and host (RFC 9112 section 3.2.2). */
export function requestTarget(url: string): RequestTarget {
  const local = url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?#]*/i, '')
  const end = local.indexOf('?')
  if (end === -1) return { path: local, query: NO_QUERY }
  return { path: local.slice(0, end), query: new URLSearchParams(local.slice(end + 1)) }
}
