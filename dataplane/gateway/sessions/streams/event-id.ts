/**
 * Where in a stream an event is. As text it is the event's id: unique among all streams of all replicas, so that a
 * client that brings it back says which stream it has lost, and where that is kept.
 */
export interface EventId {
  /** The replica that keeps the stream. */
  readonly replica: string
  /** The stream's name there. */
  readonly stream: string
  readonly seq: number
  /** JSON text of the id of the request that the stream answers; undefined for a GET stream. */
  readonly request: string | undefined
}

const ID = /^([\w-]{1,32})\.([\w-]{1,32})\.(\d{1,15})(?:\.([\w-]{1,400}))?$/
/** A request's id that is longer does not go along: what is lost of its stream then has no answer. */
const LONGEST_REQUEST = 256

/** Of the event that says that a stream is lost: behind it there is nothing. */
export const LAST_SEQ = 999_999_999_999_999

export const eventIdText = ({ replica, stream, seq, request }: EventId): string =>
  `${replica}.${stream}.${seq}${request === undefined || request.length > LONGEST_REQUEST ? '' : `.${Buffer.from(request).toString('base64url')}`}`

/** What a `Last-Event-ID` names; undefined where it is none of ours. */
export function parseEventId(text: string): EventId | undefined {
  const [, replica, stream, seq, request] = ID.exec(text) ?? []
  if (replica === undefined || stream === undefined) return undefined
  return {
    replica,
    stream,
    seq: Number(seq),
    request: request === undefined ? undefined : Buffer.from(request, 'base64url').toString(),
  }
}
