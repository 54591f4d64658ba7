import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import { isObject } from '../../../../crds/shared/json.ts'
import { isCluster, type RedisClient } from '../../../storage/redis.ts'
import type { BusKind, BusMessage, SessionBus } from './bus.ts'
import { isBusMessage } from './bus-shape.ts'

interface RedisBusOptions {
  readonly client: RedisClient
  /** A connection of its own: one that subscribes can do nothing else. */
  readonly subscriber: RedisClient
  readonly prefix: string
  readonly log: Logger
}

const RETRY_MS = 1_000

/** Replicas of a gateway send each other messages on two channels: one for all, and one for each replica. */
export function createRedisBus({ client, subscriber, prefix, log }: RedisBusOptions): SessionBus {
  const replica = randomBytes(9).toString('base64url')
  const channelOf = (name: string) => `${prefix}replica:${name}`
  const all = `${prefix}replicas`
  const takers = new Map<BusKind, (message: never) => void>()

  subscriber.on('message', (_channel: string, text: string) => {
    const sent = parse(text)
    if (sent === undefined || sent[0] === replica) return
    const [, message] = sent
    try {
      takers.get(message.kind)?.(message as never)
    } catch (error) {
      // A replica of another version may say things otherwise.
      log.warn({ err: error, kind: message.kind }, 'a message of a replica can’t be handled')
    }
  })
  // ioredis would subscribe again by itself and leave a refusal to nobody, which ends the process.
  if (!isCluster(subscriber)) subscriber.options.autoResubscribe = false
  let again: NodeJS.Timeout | undefined
  const subscribe = (): void => {
    clearTimeout(again)
    subscriber.subscribe(all, channelOf(replica)).catch((error) => {
      log.debug({ err: error }, 'the messages of replicas can’t be subscribed to')
      if (subscriber.status !== 'ready') return
      again = setTimeout(subscribe, RETRY_MS)
      again.unref()
    })
  }
  subscriber.on('ready', subscribe)
  subscriber.connect().catch(() => {
    // ioredis emits the failure as an `error` event too, and goes on trying to connect.
  })

  async function publish(message: BusMessage, to: string | undefined): Promise<boolean> {
    const receivers = await client.publish(to === undefined ? all : channelOf(to), JSON.stringify([replica, message]))
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

/** A replica's name and what it says; undefined for what no replica has sent. */
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
