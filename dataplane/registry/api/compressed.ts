import { hash } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'

/** Below this a packet is a packet, compressed or not. */
const SMALLEST = 1_400
/** Compressed pages that are kept: some hundreds. */
const MOST_BYTES = 32 * 1024 * 1024

const compress = promisify(gzip)

/**
 * Makes the function that compresses texts. What it made is kept by the text's digest, the least recently used going
 * first: clients ask for the same pages over and over, and gzip of 130 kB costs milliseconds of a core where the digest
 * costs a tenth of one. Undefined where the text is too short to be worth it.
 */
export function createCompressor(): (text: string) => Promise<Buffer<ArrayBuffer>> | undefined {
  const kept = new Map<string, Buffer<ArrayBuffer>>()
  let bytes = 0

  function keep(key: string, buffer: Buffer<ArrayBuffer>): void {
    if (kept.has(key)) return
    kept.set(key, buffer)
    bytes += buffer.length
    for (const [oldest, { length }] of kept) {
      if (bytes <= MOST_BYTES) return
      kept.delete(oldest)
      bytes -= length
    }
  }

  async function compressed(text: string): Promise<Buffer<ArrayBuffer>> {
    const key = hash('sha256', text, 'base64url')
    const known = kept.get(key)
    if (known !== undefined) {
      kept.delete(key)
      kept.set(key, known)
      return known
    }
    // In a thread of zlib's own: others are served meanwhile.
    const buffer = await compress(text)
    keep(key, buffer)
    return buffer
  }
  return (text) => (text.length < SMALLEST ? undefined : compressed(text))
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
