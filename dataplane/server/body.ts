import type { IncomingMessage } from 'node:http'
import type { Context } from 'hono'
import { PublicError } from './errors.ts'

/** The memory of a chunk of a body in addition to its bytes, because clients may send a body byte by byte. */
const PIECE_BYTES = 256

/**
 * Refuses a compressed body, which could grow beyond its length, with 415 and the accepted encoding (RFC 9110 section
 * 15.5.16).
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
  if (incoming !== undefined) return collectBody(incoming, limit, hold)

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

/** Reads by events, because leaving an iterator early destroys the socket before the client has seen the 413. */
function collectBody(incoming: IncomingMessage, limit: number, hold: HoldBytes): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const done = () => {
      incoming.off('data', onData)
      incoming.off('end', onEnd)
      incoming.off('error', brokeOff)
      incoming.off('close', brokeOff)
    }
    const onData = (chunk: Buffer) => {
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
    const onEnd = () => {
      done()
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks))
    }
    const brokeOff = () => {
      done()
      reject(new PublicError('invalid_request', { message: 'The body ended early.' }))
    }
    incoming.on('data', onData)
    incoming.on('end', onEnd)
    incoming.on('error', brokeOff)
    incoming.on('close', brokeOff)
    if (incoming.readableEnded) onEnd()
    else if (incoming.destroyed) brokeOff()
  })
}

const tooLarge = (limit: number) => new PublicError('too_large', { message: `The body is larger than ${limit} bytes.` })

/** The largest body that is sent as a string, so that Node sends head and body in one write. */
export const ONE_WRITE = 16 * 1024
/** The size below which a body is converted faster than it is found in the cache. */
const SMALL = 512

/** The texts of bytes that are sent repeatedly, for as long as these live. */
const texts = new WeakMap<Buffer, string>()

/** Returns bytes as Latin-1. The text is cached if that saves time. */
export function latin1(bytes: Buffer): string {
  if (bytes.length < SMALL) return bytes.toString('latin1')
  let text = texts.get(bytes)
  if (text === undefined) texts.set(bytes, (text = bytes.toString('latin1')))
  return text
}

/** Returns the memory of bytes that are sent repeatedly, with their cached text. */
export const countKeptBytes = ({ length }: Buffer): number =>
  length >= SMALL && length <= ONE_WRITE ? 2 * length : length
