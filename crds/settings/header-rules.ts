/** A field name of RFC 9110, section 5.1. */
export const HEADER_NAME = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"
/** No line break and no NUL (RFC 9110, section 5.5). */
export const HEADER_VALUE = '^[^\\r\\n\\x00]*$'

/** Headers that belong to the connection or to the protocol: the gateway sets them on each request to a backend. */
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
