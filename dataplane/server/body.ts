import type { IncomingMessage } from 'node:http'
import type { Context } from 'hono'
import { PublicError } from './errors.ts'

/** The overhead of each chunk of a body in memory: clients may send it byte by byte. */
const PIECE_BYTES = 256

/**
 * Refuses a compressed body: 415, with the accepted encoding (RFC 9110 section 15.5.16). It could grow beyond its
 * length.
 */
export function refuseCompressed(contentEncoding: string | undefined): void {
  if (contentEncoding === undefined || /^(identity)?$/i.test(contentEncoding.trim())) return
  throw new PublicError('unsupported_media_type', {
    message: 'Send the body uncompressed, without Content-Encoding.',
    headers: { 'Accept-Encoding': 'identity' },
  })
}

/** Called with the bytes of memory that a body takes so far. If it throws, the body is read no further. */
type HoldBytes = (bytes: number) => void

const countNothing: HoldBytes = () => {
  // A caller without a memory budget: `limit` alone bounds the body.
}

/**
 * Reads a request's body, at most `limit` bytes as they arrive. Throws a PublicError (`too_large`, or `invalid_request`
 * if the client broke off), and what `hold` throws.
 */
export async function readBody(c: Context, limit: number, hold: HoldBytes = countNothing): Promise<Buffer> {
  if (Number(c.req.header('content-length')) > limit) throw tooLarge(limit)
  const { incoming } = (c.env ?? {}) as { incoming?: IncomingMessage }
  if (incoming !== undefined) return collect(incoming, limit, hold)

  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of c.req.raw.body ?? []) {
    size += chunk.length
    if (size > limit) throw tooLarge(limit)
    chunks.push(chunk)
    hold(size + chunks.length * PIECE_BYTES)
  }
  return Buffer.concat(chunks)
}

/** Reads by events: an iterator that is left early destroys the socket, and the client would never see the 413. */
function collect(incoming: IncomingMessage, limit: number, hold: HoldBytes): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const done = () => {
      incoming.off('data', received)
      incoming.off('end', ended)
      incoming.off('error', brokeOff)
      incoming.off('close', brokeOff)
    }
    const received = (chunk: Buffer) => {
      size += chunk.length
      try {
        if (size > limit) throw tooLarge(limit)
        chunks.push(chunk)
        hold(size + chunks.length * PIECE_BYTES)
      } catch (error) {
        done()
        incoming.pause()
        reject(error)
      }
    }
    const ended = () => {
      done()
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks))
    }
    const brokeOff = () => {
      done()
      reject(new PublicError('invalid_request', { message: 'The body ended early.' }))
    }
    incoming.on('data', received)
    incoming.on('end', ended)
    incoming.on('error', brokeOff)
    incoming.on('close', brokeOff)
    if (incoming.readableEnded) ended()
    else if (incoming.destroyed) brokeOff()
  })
}

const tooLarge = (limit: number) => new PublicError('too_large', { message: `The body is larger than ${limit} bytes.` })
