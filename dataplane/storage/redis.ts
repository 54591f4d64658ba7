import type { EventEmitter } from 'node:events'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { type ConnectionOptions, getCACertificates } from 'node:tls'
import type { Cluster, Redis, RedisOptions } from 'ioredis'
import type { Logger } from 'pino'
import { parseTimer } from '../../crds/settings/duration.ts'
import { redisTimeouts } from '../../crds/settings/redis-timeouts.ts'
import type { RedisSettings } from '../config/redis.ts'
import { secretFile } from '../config/secret-file.ts'
import { backoffDelay, whole } from '../retry/backoff.ts'
import { PublicError } from '../server/errors.ts'
import type { Observe, Operation } from '../telemetry/observe.ts'

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

/** Codes of Redis that do not pass by themselves: somebody has to mend its settings, or the rights of our user there. */
const LASTING = /\b(?:NOPERM|OOM|MISCONF|NOAUTH|WRONGPASS)\b|ACL failure|executing the script can't/
const EVENT = 'refusal'
/** What is refused is said once in so long, by its code. */
const QUIET_MS = 60_000

/** After Redis has not answered in time, how long no command is sent to it: callers must not queue up behind silence. */
const SILENCE_MS = 1_000

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

/** Tells whoever follows the client that Redis has refused a command for good. Other errors are none of these. */
function noteRefusal(client: Pick<EventEmitter, 'emit'>, error: Error): void {
  if (LASTING.test(error.message)) client.emit(EVENT, error)
}

/** Says in the log what Redis refuses for good: callers are only told that it does not work at the moment. */
function logRefusals(client: Pick<EventEmitter, 'on'>, log: Pick<Logger, 'error'>): void {
  const saidAt = new Map<string, number>()
  client.on(EVENT, (error: Error) => {
    const [code = ''] = LASTING.exec(error.message) ?? []
    const now = performance.now()
    if (now - (saidAt.get(code) ?? Number.NEGATIVE_INFINITY) < QUIET_MS) return
    saidAt.set(code, now)
    log.error({ err: error }, 'Redis refuses what is needed: see its memory, and the rights of its user')
  })
}

/** Redis for those who can't wait: while it is known to be away commands fail at once. */
export class PromptRedis {
  readonly client: RedisClient
  #away = false
  #silentUntil = 0

  constructor(client: RedisClient) {
    this.client = client
    client.on('close', () => {
      this.#away = true
    })
    client.on('ready', () => {
      this.#away = false
    })
  }

  /** Throws the PublicError `unavailable` while Redis is known to be away. */
  checkHere(): void {
    if ((this.#away && this.client.status !== 'ready') || performance.now() < this.#silentUntil)
      throw new PublicError('unavailable', { headers: { 'Retry-After': '1' } })
  }

  /** Runs commands. Rejects with the PublicError `unavailable`: only the very first connection is waited for. */
  async ask<T>(run: (redis: RedisClient) => Promise<T>): Promise<T> {
    this.checkHere()
    try {
      return await withRedis(this.client, run)
    } catch (error) {
      if (/timed out/i.test(String((error as Error).cause))) this.#silentUntil = performance.now() + SILENCE_MS
      throw error
    }
  }
}

/** What a configuration says of Redis, for `connectRedis`. File paths are relative to the configuration's folder. */
export function redisConfigOf(settings: RedisSettings, directory: string): RedisConfig {
  const { usernameFile, passwordFile, tls, sentinelTls } = settings
  const { dialTimeout, readTimeout, writeTimeout } = { ...redisTimeouts, ...settings }
  const tlsOf = ({ caFile, insecureSkipVerify = false }: NonNullable<RedisSettings['tls']>): RedisTls => ({
    insecureSkipVerify,
    ...(caFile === undefined ? {} : { caFile: resolve(directory, caFile) }),
  })
  return {
    mode: settings.mode ?? 'standalone',
    addresses: settings.addresses,
    ...(settings.masterName === undefined ? {} : { masterName: settings.masterName }),
    db: settings.db ?? 0,
    ...(usernameFile === undefined ? {} : { usernameFile: resolve(directory, usernameFile) }),
    ...(passwordFile === undefined ? {} : { passwordFile: resolve(directory, passwordFile) }),
    ...(tls === undefined ? {} : { tls: tlsOf(tls) }),
    ...(sentinelTls === undefined ? {} : { sentinelTls: tlsOf(sentinelTls) }),
    dialTimeoutMs: parseTimer(dialTimeout),
    // One timeout for writing a command and reading its answer.
    commandTimeoutMs: Math.min(parseTimer(readTimeout) + parseTimer(writeTimeout), parseTimer('596h')),
  }
}
