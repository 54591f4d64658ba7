import type { IncomingMessage } from 'node:http'
import { PublicError } from '../../server/errors.ts'

/** Largest body of a POST in bytes. */
export const LARGEST_BODY = 8 * 1024 * 1024
/**
 * A larger body is read away up to this before it is refused: a socket that is closed on a client that still sends takes
 * the answer with it.
 */
export const MOST_READ_AWAY = 64 * 1024 * 1024

/** Checks that a POST brings JSON, not too much of it, and takes both forms of answer. */
export function checkPost({ headers }: IncomingMessage): void {
  if (!isJson(headers['content-type'])) throw new PublicError('unsupported_media_type')
  const { accept } = headers
  if (!accepts(accept, 'application/json') || !accepts(accept, 'text/event-stream'))
    throw new PublicError('not_acceptable')
  if (Number(headers['content-length'] ?? 0) > MOST_READ_AWAY) throw tooLarge()
}

/** Checks that a GET takes a stream of events. */
export function checkGet({ headers }: IncomingMessage): void {
  if (!accepts(headers.accept, 'text/event-stream'))
    throw new PublicError('not_acceptable', { message: 'Accept must allow text/event-stream.' })
}

/** The client goes on sending what nobody reads: the connection is of no more use. */
export const tooLarge = (): PublicError => new PublicError('too_large', { headers: { connection: 'close' } })

function isJson(contentType: string | undefined): boolean {
  if (contentType === 'application/json') return true
  return contentType?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json'
}

function accepts(header: string | undefined, type: string): boolean {
  if (header === undefined) return false
  if (header.includes(type) && !header.includes('q=0')) return true
  return header.split(',').some((part) => {
    const [range = '', ...parameters] = part.split(';').map((text) => text.trim().toLowerCase())
    if (parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter))) return false
    return range === type || range === '*/*' || range === type.replace(/\/.*/, '/*')
  })
}
