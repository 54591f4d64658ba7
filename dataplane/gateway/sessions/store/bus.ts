import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import { isObject } from '../../../../crds/settings/json.ts'
import { isCluster, type RedisClient } from '../../../storage/redis.ts'

/** Messages between the replicas of one gateway. `session` is always a session id. */
export type BusMessage =
  /** The session has ended, or its notes have changed, so cached copies are out of date. */
  | { readonly kind: 'ended' | 'changed'; readonly session: string }
  /**
   * A JSON-RPC message for the client whose GET stream is open at the receiving replica; `ask`: its id, if it is a
   * request.
   */
  | { readonly kind: 'say'; readonly session: string; readonly text: string; readonly ask?: string }
  /** A client's response to a request of the receiving replica. */
  | { readonly kind: 'answer'; readonly session: string; readonly ask: string; readonly text: string }
  /** A request of the receiving replica did not reach the client. */
  | { readonly kind: 'unheard'; readonly session: string; readonly ask: string }
  /** The client has cancelled its request, whose id is JSON text. */
  | { readonly kind: 'cancel'; readonly session: string; readonly request: string }
  /** The client has its GET stream open at the sending replica, and no longer elsewhere. */
  | { readonly kind: 'listens'; readonly session: string }
  /** The replica `from` has opened a backend session for a client whose GET stream is open at the receiving replica. */
  | { readonly kind: 'linked'; readonly session: string; readonly backend: string; readonly from: string }
  /** The messages of that session are now subscribed to, as far as possible. */
  | { readonly kind: 'hears'; readonly session: string; readonly backend: string }
  | AnswerQuestion
  | RelayMessage

/**
 * A question for an answer that another replica has or awaits: a client's retry of a suspended call, its stream after the
 * event of this number, or the answer to a request (its id is JSON text) that comes on a backend's stream. The answer
 * goes to the replica `from`, as `relay`.
 */
type AnswerQuestion =
  | {
      readonly kind: 'resume'
      readonly call: string
      readonly relay: string
      readonly from: string
      readonly text: string
    }
  | {
      readonly kind: 'late'
      readonly session: string
      readonly backend: string
      readonly request: string
      readonly relay: string
      readonly from: string
    }
  | {
      readonly kind: 'replay'
      readonly session: string
      readonly stream: string
      readonly after: number
      readonly relay: string
      readonly from: string
    }

/** A message about an answer that one replica has and whose client is connected to another. `relay` names the relay. */
type RelayMessage =
  /** The next pieces of the answer, numbered from 1; number 0 needs no acknowledgement. */
  | { readonly kind: 'relayed'; readonly relay: string; readonly seq: number; readonly items: readonly Relayed[] }
  /** The client still waits. It has all messages up to this number, and can or can't receive more. */
  | {
      readonly kind: 'awaits'
      readonly relay: string
      readonly from: string
      readonly received: number
      readonly hasRoom: boolean
    }
  /** The client has disconnected. */
  | { readonly kind: 'left'; readonly relay: string }

/** A piece of an answer. `text`: bytes as Latin-1. */
export type Relayed =
  | { readonly what: 'answer'; readonly status: number; readonly text: string }
  /** One event, or a part of an event that is too large to buffer; `id`: its id in the stream, if any. */
  | { readonly what: 'event' | 'part'; readonly id?: string | undefined; readonly text: string }
  /** In this order: the answer is complete; the rest is lost; more will follow; there is no such answer. */
  | { readonly what: 'end' | 'lost' | 'heartbeat' | 'unknown' }

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

const TEXTS: Readonly<Record<BusKind, readonly string[]>> = {
  ended: ['session'],
  changed: ['session'],
  say: ['session', 'text'],
  answer: ['session', 'ask', 'text'],
  unheard: ['session', 'ask'],
  cancel: ['session', 'request'],
  listens: ['session'],
  linked: ['session', 'backend', 'from'],
  hears: ['session', 'backend'],
  resume: ['call', 'relay', 'from', 'text'],
  late: ['session', 'backend', 'request', 'relay', 'from'],
  replay: ['session', 'stream', 'relay', 'from'],
  relayed: ['relay'],
  awaits: ['relay', 'from'],
  left: ['relay'],
}
const isText = (value: unknown): boolean => typeof value === 'string'
const isNumber = (value: unknown): boolean => Number.isSafeInteger(value)
const NEEDED: Readonly<Partial<Record<BusKind, Shape>>> = {
  replay: { after: isNumber },
  relayed: { seq: isNumber, items: (value) => Array.isArray(value) && value.every(isRelayed) },
  awaits: { received: isNumber, hasRoom: (value) => typeof value === 'boolean' },
}
const OTHERS: Shape = { ask: isText }

type Shape = Readonly<Record<string, (value: unknown) => boolean>>

const PIECES: Readonly<Record<Relayed['what'], Shape>> = {
  answer: {
    status: (value) => Number.isSafeInteger(value) && (value as number) >= 200 && (value as number) <= 599,
    text: isText,
  },
  event: { text: isText },
  part: { text: isText },
  end: {},
  lost: {},
  heartbeat: {},
  unknown: {},
}
const PIECE_OTHERS: Shape = { id: isText }

function isRelayed(piece: unknown): boolean {
  if (!isObject(piece)) return false
  const { what } = piece as { readonly what?: unknown }
  if (typeof what !== 'string' || !Object.hasOwn(PIECES, what)) return false
  return hasShape(piece, PIECES[what as Relayed['what']]) && mayHave(piece, PIECE_OTHERS)
}

type Members = Readonly<Record<string, unknown>>

const hasShape = (members: Members, shape: Shape): boolean =>
  Object.entries(shape).every(([name, isFit]) => isFit(members[name]))

const mayHave = (members: Members, shape: Shape): boolean =>
  Object.entries(shape).every(([name, isFit]) => members[name] === undefined || isFit(members[name]))

/** Tells whether replicas of this version send such a message. Other versions and programs may send anything. */
export function isBusMessage(message: Members): boolean {
  const { kind } = message as Partial<BusMessage>
  if (typeof kind !== 'string' || !Object.hasOwn(TEXTS, kind)) return false
  if (!TEXTS[kind].every((name) => isText(message[name]))) return false
  return hasShape(message, NEEDED[kind] ?? {}) && mayHave(message, OTHERS)
}

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
    return Array.isArray(sent) && typeof sent[0] === 'string' && isObject(sent[1]) && isBusMessage(sent[1])
      ? (sent as unknown as [string, BusMessage])
      : undefined
  } catch {
    return undefined
  }
}
