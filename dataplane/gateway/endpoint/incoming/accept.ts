import type { IncomingMessage } from 'node:http'
import { PublicError } from '../../../server/errors.ts'

/** Largest body of a POST in bytes. */
export const LARGEST_BODY = 8 * 1024 * 1024

/** What nearly all clients send: both SDKs do. */
const USUAL_ACCEPT = 'application/json, text/event-stream'

/** Checks that a POST brings JSON, not too much of it, and takes both forms of answer. Gives its length, where it says so. */
export function checkPost({ headers }: IncomingMessage): number {
  if (!isJson(headers['content-type'])) throw new PublicError('unsupported_media_type')
  const { accept } = headers
  if (accept !== USUAL_ACCEPT && !(accepts(accept, 'application/json') && accepts(accept, 'text/event-stream')))
    throw new PublicError('not_acceptable')
  const length = Number(headers['content-length'] ?? 0)
  if (length > LARGEST_BODY) throw tooLarge()
  return length
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
