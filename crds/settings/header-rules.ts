/** A field name (RFC 9110, section 5.1). */
export const HEADER_NAME = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"
/** A field value without line breaks and NUL (RFC 9110, section 5.5). */
export const HEADER_VALUE = '^[^\\r\\n\\x00]*$'

/** Headers of the connection or the protocol. The gateway sets them on each request to a backend. */
export const gatewayHeaders = [
  'connection',
  'content-length',
  'content-type',
  'host',
  'keep-alive',
  'mcp-protocol-version',
  'mcp-session-id',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
] as const

/**
 * Headers that never go from a client to a backend: credentials, and those of one connection, of the protocol or of the
 * path up to the gateway.
 */
export const unpassedHeaders: readonly string[] = [
  'host',
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'content-length',
  'content-type',
  'content-encoding',
  'accept',
  'last-event-id',
  // A client's credentials are for the gateway. A backend's own configuration decides which credentials it gets.
  'authorization',
  'dpop',
  'cookie',
  'forwarded',
]
