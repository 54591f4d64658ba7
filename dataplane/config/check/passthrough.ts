import type { Finding } from '../load.ts'

/** A token of RFC 9110 section 5.6.2. */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/**
 * The headers that never go from a client to a backend: credentials are for the gateway; the others belong to one
 * connection or to the protocol, or describe the path of the request up to the gateway.
 */
const REFUSED: ReadonlySet<string> = new Set([
  'accept',
  'authorization',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'cookie',
  'forwarded',
  'host',
  'keep-alive',
  'last-event-id',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** Checks the names of headers that are to be passed on. */
export function passthroughFindings(names: readonly string[], at: string): readonly Finding[] {
  return names.flatMap((name, index) => {
    const lower = name.toLowerCase()
    const pointer = `${at}/${index}`
    if (!HEADER_NAME.test(name)) return [{ pointer, message: 'is not a header name' }]
    if (REFUSED.has(lower) || lower.startsWith('x-forwarded-') || lower.startsWith('mcp-'))
      return [{ pointer, message: 'this header is never passed on' }]
    return names.findIndex((other) => other.toLowerCase() === lower) < index
      ? [{ pointer, message: 'this header is named twice' }]
      : []
  })
}
