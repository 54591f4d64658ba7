import { type OutgoingHttpHeader, type OutgoingHttpHeaders, ServerResponse } from 'node:http'

const NAME = 'x-content-type-options'
const VALUE = 'nosniff'
/** The header as a flat list. A list of headers that ends with it is sent unchanged. */
export const NOSNIFF: readonly [string, string] = [NAME, VALUE]

type Headers = OutgoingHttpHeaders | OutgoingHttpHeader[] | undefined

/**
 * Makes the class of a listener's responses, which forbid browsers to guess another type (Fetch standard,
 * `X-Content-Type-Options`). Once `isEnding`, each response closes its connection.
 */
export function responses(isEnding: () => boolean) {
  return class NosniffResponse extends ServerResponse {
    override writeHead(status: number, reason?: string | Headers, headers?: Headers): this {
      if (isEnding()) this.shouldKeepAlive = false
      return typeof reason === 'string'
        ? super.writeHead(status, reason, withNosniff(headers))
        : super.writeHead(status, withNosniff(reason ?? headers))
    }
  }
}

/** Returns the same headers, a flat list or an object, and one more, unless a list ends with it. */
function withNosniff(headers: Headers): OutgoingHttpHeaders | OutgoingHttpHeader[] {
  if (!Array.isArray(headers)) return { ...headers, [NAME]: VALUE }
  return headers[headers.length - 2] === NAME ? headers : headers.concat(NOSNIFF)
}
