/** The position of an event in a stream. As text it is the event's id, which names the stream and its replica. */
export interface EventId {
  readonly replica: string
  readonly stream: string
  readonly seq: number
  /** JSON text of the id of the request that the stream answers; undefined for a GET stream. */
  readonly request: string | undefined
}

const ID = /^([\w-]{1,32})\.([\w-]{1,32})\.(\d{1,15})(?:\.([\w-]{1,400}))?$/
/** The longest request id in an event id. If a stream for a longer one is lost, its request gets no answer. */
const LONGEST_REQUEST = 256

/** The number of the event that reports a lost stream. No event follows it. */
export const LAST_SEQ = 999_999_999_999_999

export const eventIdText = ({ replica, stream, seq, request }: EventId): string =>
  `${replica}.${stream}.${seq}${request === undefined || request.length > LONGEST_REQUEST ? '' : `.${Buffer.from(request).toString('base64url')}`}`

/** Reads a `Last-Event-ID`; undefined if it is not ours. */
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
