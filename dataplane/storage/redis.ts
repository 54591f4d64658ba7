import { createRequire } from 'node:module'
import { type ConnectionOptions, getCACertificates } from 'node:tls'
import type { Cluster, Redis, RedisOptions } from 'ioredis'
import type { Logger } from 'pino'
import { secretFile } from '../config/secret-file.ts'
import { backoffDelay, whole } from '../retry/backoff.ts'
import { PublicError } from '../server/errors.ts'
import type { Observe, Operation } from '../telemetry/observe.ts'
import { logRefusals, noteRefusal } from './refusals.ts'

/** `host:port`, an IPv6 host in brackets. */
type RedisAddress = string

export interface RedisTls {
  /** PEM file of the CAs that are trusted; absent: the system's. */
  readonly caFile?: string
  /** Any certificate will do. For tests of other people's set-ups. */
  readonly insecureSkipVerify?: boolean
}

/** Where Redis is: one server, a Cluster by some of its nodes, or whatever server Sentinel calls the master. */
export interface RedisConfig {
  readonly mode: 'standalone' | 'cluster' | 'sentinel'
  /** Of the server, of some cluster nodes, or of the sentinels. */
  readonly addresses: readonly RedisAddress[]
  /** Under `sentinel`. */
  readonly masterName?: string
  /** A Cluster has 0 alone. */
  readonly db?: number
  /** Files that are read whenever a connection is opened: a password that was rotated is found without a restart. */
  readonly usernameFile?: string
  readonly passwordFile?: string
  readonly tls?: RedisTls
  /** TLS towards the sentinels. */
  readonly sentinelTls?: RedisTls
  readonly dialTimeoutMs?: number
  /** Longest wait for an answer. */
  readonly commandTimeoutMs?: number
}

export type RedisClient = Redis | Cluster

export const isCluster = (client: RedisClient): client is Cluster => client.isCluster

const PACKAGE = 'ioredis'
const require = createRequire(import.meta.url)
/** Loaded with the first connection: it takes 11 MiB, and most gateways have no Redis. */
const ioredis = () => require(PACKAGE) as typeof import('ioredis')

/**
 * Makes all Redis connections. Nothing is connected before the first command. While Redis is unreachable a command fails
 * after one retry instead of waiting; reconnecting goes on in the background with back-off, up to 2 s. What `withRedis`
 * asks of it is reported to `observe`.
 */
export function connectRedis(config: RedisConfig, log: Logger, observe?: Observe): RedisClient {
  const client = config.mode === 'cluster' ? cluster(config) : single(config)
  if (observe !== undefined) observers.set(client, observe)
  const logged = new Set<string>()
  // Without a listener ioredis prints to the console. A line for each reason of an outage, not for each attempt.
  client.on('error', (error: Error) => {
    if (!logged.has(error.message)) log.warn({ err: withoutCommand(error) }, 'Redis can’t be reached')
    logged.add(error.message)
  })
  logRefusals(client, log)
  client.on('ready', () => {
    if (logged.size > 0) log.info('Redis is here again')
    logged.clear()
  })
  return client
}

export { redisKeyPrefix } from '../config/redis-keys.ts'

/**
 * Runs commands; whatever fails in them becomes a PublicError `unavailable`, with the reason for the log. While Redis
 * is known to be unreachable it fails at once instead of queueing.
 */
export async function withRedis<T>(client: RedisClient, run: (client: RedisClient) => Promise<T>): Promise<T> {
  const observed = observers.get(client)?.(ASKED)
  try {
    if (client.status !== 'ready') await connected(client)
    const result = await run(client)
    observed?.end({ result: 'ok' })
    return result
  } catch (cause) {
    observed?.end({ result: 'error', code: cause instanceof PublicError ? cause.code : 'unavailable' })
    if (cause instanceof PublicError) throw cause
    const error = withoutCommand(cause)
    noteRefusal(client, error)
    throw unavailable(error)
  }
}

/** Whom to tell what a client is asked. */
const observers = new WeakMap<RedisClient, Observe>()
const ASKED: Operation = { kind: 'store', name: 'redis' }

/** Attempts to connect that are under way: all who wait for one share it, and its listeners. */
const attempts = new WeakMap<RedisClient, Promise<void>>()

/**
 * Waits for the attempt that is under way, not for the next one: a Cluster or Sentinel client would try without end,
 * and queue meanwhile.
 */
function connected(client: RedisClient): Promise<void> {
  const known = attempts.get(client)
  if (known !== undefined) return known
  const attempt = nextAttempt(client).finally(() => attempts.delete(client))
  attempts.set(client, attempt)
  return attempt
}

function nextAttempt(client: RedisClient): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (error?: Error) => {
      clearTimeout(deadline)
      client.off('ready', ready)
      client.off('close', away)
      client.off('error', settle)
      if (error === undefined) resolve()
      else reject(error)
    }
    const ready = () => settle()
    const away = () => settle(new Error('Redis is away'))
    const deadline = setTimeout(away, LONGEST_CONNECT_MS)
    if (['reconnecting', 'close', 'end'].includes(client.status)) return away()
    client.on('ready', ready)
    client.on('close', away)
    client.on('error', settle)
    if (client.status === 'wait')
      client.connect().catch(() => {
        // `settle` gets the failure by the `error` event.
      })
  })
}

const LONGEST_CONNECT_MS = 5_000

const unavailable = (cause: unknown) => new PublicError('unavailable', { headers: { 'Retry-After': '1' }, cause })

/** ioredis attaches the command with its arguments to an error, and those of HELLO and AUTH hold the password. */
const withoutCommand = (error: unknown): Error => new Error(error instanceof Error ? error.message : String(error))

function single(config: RedisConfig): Redis {
  const [first, ...others] = config.addresses.map(hostAndPort)
  if (first === undefined) throw new TypeError('no address of Redis')
  const options = optionsOf(config)
  const { Redis } = ioredis()
  const redis =
    config.mode === 'sentinel'
      ? new Redis({
          ...options,
          sentinels: [first, ...others],
          name: config.masterName ?? 'mymaster',
          sentinelRetryStrategy: backoff,
          ...(config.sentinelTls === undefined
            ? {}
            : { enableTLSForSentinelMode: true, sentinelTLS: tlsOf(config.sentinelTls) }),
        })
      : new Redis({ ...options, ...first })
  readCredentialsAtConnect(redis.options, config)
  return redis
}

function cluster(config: RedisConfig): Cluster {
  const { Cluster } = ioredis()
  const cluster = new Cluster(config.addresses.map(hostAndPort), {
    redisOptions: optionsOf({ ...config, db: 0 }),
    clusterRetryStrategy: backoff,
    lazyConnect: true,
    enableOfflineQueue: true,
    // Names stay names: a certificate is issued to a name, not to what it resolves to.
    dnsLookup: (address, done) => done(null, address),
  })
  cluster.on('+node', (node: Redis) => readCredentialsAtConnect(node.options, config))
  return cluster
}

function optionsOf(config: RedisConfig): RedisOptions {
  return {
    db: config.db ?? 0,
    lazyConnect: true,
    connectTimeout: config.dialTimeoutMs ?? 5_000,
    commandTimeout: config.commandTimeoutMs ?? 3_000,
    maxRetriesPerRequest: 1,
    retryStrategy: backoff,
    // After a failover the old master answers READONLY: connect again and send the command once more.
    reconnectOnError: (error) => (error.message.startsWith('READONLY') ? 2 : false),
    ...(config.tls === undefined ? {} : { tls: tlsOf(config.tls) }),
  }
}

/** ioredis takes the credentials from its options whenever it connects; so the options read the files. */
function readCredentialsAtConnect(options: RedisOptions, { usernameFile, passwordFile }: RedisConfig): void {
  if (usernameFile !== undefined) Object.defineProperty(options, 'username', { get: readable(usernameFile) })
  if (passwordFile !== undefined) Object.defineProperty(options, 'password', { get: readable(passwordFile) })
}

/** ioredis would stay in `connecting` for ever if its options threw; so Redis refuses us instead, and we try again. */
function readable(file: string): () => string {
  const read = secretFile(file)
  return () => {
    try {
      return read()
    } catch {
      // Redis refuses an empty password, and the file is read again by the next attempt.
      return ''
    }
  }
}

/** `times` from 1. */
const backoff = (times: number): number => backoffDelay(times - 1, { first: 50, longest: 2_000, random: whole })

function tlsOf({ caFile, insecureSkipVerify = false }: RedisTls): ConnectionOptions {
  const rejectUnauthorized = !insecureSkipVerify
  if (caFile === undefined) return { rejectUnauthorized }
  const read = readable(caFile)
  return {
    rejectUnauthorized,
    get ca() {
      return [...getCACertificates('default'), read()].filter((pem) => pem !== '')
    },
  }
}

function hostAndPort(address: RedisAddress): { readonly host: string; readonly port: number } {
  const url = URL.parse(`redis://${address}`)
  if (url === null || url.hostname === '') throw new TypeError(`not an address of Redis: ${JSON.stringify(address)}`)
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || 6379) }
}
