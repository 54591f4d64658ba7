const URL_PARTS = /^([a-z][a-z\d+.-]*):\/\/([^/?#@]+)([^?#]*)(\?[^#]*)?$/i
const DEFAULT_PORTS: Readonly<Record<string, string>> = { http: ':80', https: ':443' }

/**
 * A resource in the form that it is compared in: scheme and host without case, without the scheme's own port, and without
 * one slash at the end of the path (RFC 3986 sections 6.2.2.1 and 6.2.3; clients write the URL of a server in each of these
 * ways). Whatever else differs is another resource; so is a text that is no URL with a host, or has a fragment.
 */
function comparable(resource: string): string {
  const [, scheme, authority, path = '', query = ''] = URL_PARTS.exec(resource) ?? []
  if (scheme === undefined || authority === undefined) return resource
  const protocol = scheme.toLowerCase()
  const host = authority.toLowerCase()
  const port = DEFAULT_PORTS[protocol]
  const bare = port !== undefined && host.endsWith(port) ? host.slice(0, -port.length) : host
  return `${protocol}://${bare}${path.replace(/\/$/, '')}${query}`
}

/** Makes a function that gives the configured spelling of a resource, and any other text as it is. */
export function resourceSpelling(configured: Iterable<string>): (asked: string) => string {
  const names = [...configured]
  const exact = new Set(names)
  // The first one counts where two are configured that differ in their spelling alone.
  const spellings = new Map(names.toReversed().map((name) => [comparable(name), name]))
  return (asked) => (exact.has(asked) ? asked : (spellings.get(comparable(asked)) ?? asked))
}
