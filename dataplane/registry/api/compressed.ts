import { promisify } from 'node:util'
import { gzip } from 'node:zlib'

/** In a thread of zlib's own: others are served meanwhile. */
export const compressed = promisify(gzip)

/** Whether an `Accept-Encoding` allows gzip (RFC 9110 section 12.5.3). */
export function acceptsGzip(header: string | undefined): boolean {
  if (header === undefined) return false
  const weights = new Map(
    header.split(',').map((part): [string, number] => {
      const [coding = '', ...parameters] = part.split(';').map((piece) => piece.trim().toLowerCase())
      const weight = parameters.find((parameter) => parameter.startsWith('q='))
      return [coding, weight === undefined ? 1 : Number(weight.slice(2))]
    }),
  )
  return (weights.get('gzip') ?? weights.get('x-gzip') ?? weights.get('*') ?? 0) > 0
}
