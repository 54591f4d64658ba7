import { promisify } from 'node:util'
import { gzip } from 'node:zlib'

const compress = promisify(gzip)
/** Measured for a page of 96 kB: 0.65 ms and 11.4 kB, where level 6 takes 1.4 ms for 10.6 kB and level 1 0.26 for 14.1. */
const LEVEL = 4

/** Compresses, in a thread of zlib's own: others are served meanwhile. */
export function compressed(bytes: Buffer): Promise<Buffer> {
  return compress(bytes, { level: LEVEL })
}

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
