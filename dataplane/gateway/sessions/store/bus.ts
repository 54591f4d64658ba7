import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import { isObject } from '../../../../crds/settings/json.ts'
import { isCluster, type RedisClient } from '../../../storage/redis.ts'

/** The checks of a message's members, by their names. The members' types follow from them. */
type Shape = Readonly<Record<string, (value: unknown) => boolean>>

type Checked<Check> = Check extends (value: unknown) => value is infer Type ? Type : never

type MembersOf<Of extends Shape> = {
  readonly [Name in keyof Of as undefined extends Checked<Of[Name]> ? never : Name]: Checked<Of[Name]>
} & {
  readonly [Name in keyof Of as undefined extends Checked<Of[Name]> ? Name : never]?: Checked<Of[Name]>
}

/** The union of a table's shapes, told apart by the member `Key`. */
type OneOf<Table extends Readonly<Record<string, Shape>>, Key extends string> = {
  [Name in keyof Table]: { readonly [K in Key]: Name } & MembersOf<Table[Name]>
}[keyof Table]

const isText = (value: unknown): value is string => typeof value === 'string'
const isTextIfAny = (value: unknown): value is string | undefined => value === undefined || isText(value)
const isNumber = (value: unknown): value is number => Number.isSafeInteger(value)
const isStatus = (value: unknown): value is number => isNumber(value) && value >= 200 && value <= 599
const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean'

const texts = <Name extends string>(...names: Name[]) =>
  Object.fromEntries(names.map((name) => [name, isText])) as Readonly<Record<Name, typeof isText>>

/** The pieces of an answer. `text`: bytes as Latin-1. */
const PIECES = {
  answer: { status: isStatus, text: isText },
  /** One event, or a part of an event that is too large to buffer; `id`: its id in the stream, if any. */
  event: { id: isTextIfAny, text: isText },
  part: { id: isTextIfAny, text: isText },
  /** The answer is complete. */
  end: {},
  /** The rest is lost. */
  lost: {},
  /** More will follow. */
  heartbeat: {},
  /** There is no such answer. */
  unknown: {},
}

/** A piece of an answer. */
export type Relayed = OneOf<typeof PIECES, 'what'>

/** Messages between the replicas of one gateway. `session` is always a session id. */
const MESSAGES = {
  /** The session has ended, or its notes have changed, so cached copies are out of date. */
  ended: texts('session'),
  changed: texts('session'),
  /**
   * A JSON-RPC message for the client whose GET stream is open at the receiving replica; `ask`: its id, if it is a
   * request.
   */
  say: { ...texts('session', 'text'), ask: isTextIfAny },
  /** A client's response to a request of the receiving replica. */
  answer: texts('session', 'ask', 'text'),
  /** A request of the receiving replica did not reach the client. */
  unheard: texts('session', 'ask'),
  /** The client has cancelled its request, whose id is JSON text. */
  cancel: texts('session', 'request'),
  /** The client has its GET stream open at the sending replica, and no longer elsewhere. */
  listens: texts('session'),
  /** The replica `from` has opened a backend session for a client whose GET stream is open at the receiving replica. */
  linked: texts('session', 'backend', 'from'),
  /** The messages of that session are now subscribed to, as far as possible. */
  hears: texts('session', 'backend'),

  /**
   * A question for an answer that another replica has or awaits: a client's retry of a suspended call, the answer to a
   * request (its id is JSON text) that comes on a backend's stream, or a client's stream after the event of this number.
   * The answer goes to the replica `from`, as `relay`.
   */
  resume: texts('call', 'relay', 'from', 'text'),
  late: texts('session', 'backend', 'request', 'relay', 'from'),
  replay: { ...texts('session', 'stream', 'relay', 'from'), after: isNumber },

  // Messages about an answer that one replica has and whose client is connected to another. `relay` names the relay.
  /** The next pieces of the answer, numbered from 1; number 0 needs no acknowledgement. */
  relayed: { relay: isText, seq: isNumber, items: areRelayed },
  /** The client still waits. It has all messages up to this number, and can or can't receive more. */
  awaits: { ...texts('relay', 'from'), received: isNumber, hasRoom: isBoolean },
  /** The client has disconnected. */
  left: texts('relay'),
}

export type BusMessage = OneOf<typeof MESSAGES, 'kind'>

export type BusKind = BusMessage['kind']

/**
 * The connection between replicas. Messages may be lost while it is interrupted, so nothing depends on a single one.
 */
export interface SessionBus {
  /** This replica's name, which no other replica has ever had. */
  readonly replica: string
  /**
   * Sends to one replica or, without a name, to all others. Resolves to false if certainly nobody received it; never
   * rejects.
   */
  send(message: BusMessage, to?: string): Promise<boolean>
  /** Sends a message that may be lost. */
  notify(message: BusMessage, to?: string): void
  on<K extends BusKind>(kind: K, take: (message: Extract<BusMessage, { kind: K }>) => void): void
  close(): void
}

/** Tells whether a value is an object that the table has a shape for, by the member `key`. */
function isOneOf(table: Readonly<Record<string, Shape>>, key: string, value: unknown): boolean {
  if (!isObject(value)) return false
  const name = value[key]
  if (typeof name !== 'string' || !Object.hasOwn(table, name)) return false
  return Object.entries(table[name] as Shape).every(([member, isFit]) => isFit(value[member]))
}

function areRelayed(value: unknown): value is readonly Relayed[] {
  return Array.isArray(value) && value.every((piece) => isOneOf(PIECES, 'what', piece))
}

/** Tells whether replicas of this version send such a message. Other versions and programs may send anything. */
export const isBusMessage = (message: unknown): message is BusMessage => isOneOf(MESSAGES, 'kind', message)

interface RedisBusOptions {
  readonly client: RedisClient
  /** A separate connection: one that subscribes can do nothing else. */
  readonly subscriber: RedisClient
  readonly prefix: string
  readonly log: Logger
}

const RETRY_MS = 1_000

/** Creates a bus in Redis, with two channels for a replica: one that all share, and its own. */
export function createRedisBus({ client, subscriber, prefix, log }: RedisBusOptions): SessionBus {
  const replica = randomBytes(9).toString('base64url')
  const formatChannel = (name: string) => `${prefix}replica:${name}`
  const all = `${prefix}replicas`
  const takers = new Map<BusKind, (message: never) => void>()

  subscriber.on('message', (_channel: string, text: string) => {
    const sent = parse(text)
    if (sent === undefined || sent[0] === replica) return
    const [, message] = sent
    try {
      takers.get(message.kind)?.(message as never)
    } catch (error) {
      // A replica of another version may use another form.
      log.warn({ err: error, kind: message.kind }, 'a message of a replica can’t be handled')
    }
  })
  // ioredis would resubscribe by itself and leave a refusal unhandled, which ends the process.
  if (!isCluster(subscriber)) subscriber.options.autoResubscribe = false
  let again: NodeJS.Timeout | undefined
  const subscribe = (): void => {
    clearTimeout(again)
    subscriber.subscribe(all, formatChannel(replica)).catch((error) => {
      log.debug({ err: error }, 'the messages of replicas can’t be subscribed to')
      if (subscriber.status !== 'ready') return
      again = setTimeout(subscribe, RETRY_MS)
      again.unref()
    })
  }
  subscriber.on('ready', subscribe)
  subscriber.connect().catch(() => {
    // ioredis also emits the failure as an `error` event, and continues trying to connect.
  })

  async function publish(message: BusMessage, to: string | undefined): Promise<boolean> {
    const receivers = await client.publish(
      to === undefined ? all : formatChannel(to),
      JSON.stringify([replica, message]),
    )
    // In a Cluster the number is that of one node alone.
    return receivers > 0 || isCluster(client)
  }

  const send: SessionBus['send'] = (message, to) =>
    publish(message, to).catch((error: Error) => {
      log.debug({ err: error.message, kind: message.kind }, 'a message to replicas can’t be sent')
      return false
    })

  return {
    replica,
    send,
    notify: (message, to) => {
      send(message, to).catch(() => {
        // `send` resolves with false instead of rejecting.
      })
    },
    on(kind, take) {
      takers.set(kind, take as (message: never) => void)
    },
    close() {
      clearTimeout(again)
      subscriber.disconnect()
    },
  }
}

/** Reads a replica's name and its message; undefined for anything that no replica has sent. */
function parse(text: string): readonly [string, BusMessage] | undefined {
  try {
    const sent: unknown = JSON.parse(text)
    return Array.isArray(sent) && isText(sent[0]) && isBusMessage(sent[1]) ? [sent[0], sent[1]] : undefined
  } catch {
    return undefined
  }
}
