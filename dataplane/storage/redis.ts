import { createHash } from 'node:crypto'
import type { EventEmitter } from 'node:events'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { type ConnectionOptions, getCACertificates } from 'node:tls'
import type { Cluster, Redis, RedisOptions } from 'ioredis'
import type { Logger } from 'pino'
import { parseTimer } from '../../crds/settings/duration.ts'
import { redisTimeouts } from '../../crds/settings/gateway/defaults.ts'
import type { RedisSettings } from '../config/redis.ts'
import { secretFile } from '../config/secret-file.ts'
import { backoffDelay, whole } from '../retry/backoff.ts'
import { PublicError } from '../server/errors.ts'
import type { Observe, Operation } from '../telemetry/observe.ts'

/** `host:port`, an IPv6 host in brackets. */
type RedisAddress = string

export interface RedisTls {
  readonly caFile?: string
  /** Accepts any certificate. For tests of other people's set-ups. */
  readonly insecureSkipVerify?: boolean
}

/** The address of Redis: one server, a Cluster by some of its nodes, or the server that Sentinel calls the master. */
export interface RedisConfig {
  readonly mode: 'standalone' | 'cluster' | 'sentinel'
  /** Addresses of the server, of some cluster nodes, or of the sentinels. */
  readonly addresses: readonly RedisAddress[]
  readonly masterName?: string
  /** A Cluster has 0 alone. */
  readonly db?: number
  /** The files are read whenever a connection is opened, so a rotated password works without a restart. */
  readonly usernameFile?: string
  readonly passwordFile?: string
  readonly tls?: RedisTls
  readonly sentinelTls?: RedisTls
  readonly dialTimeoutMs?: number
  readonly commandTimeoutMs?: number
}

export type RedisClient = Redis | Cluster

/** Codes of Redis that are permanent: an administrator has to fix its settings, or the rights of our user there. */
const LASTING = /\b(?:NOPERM|OOM|MISCONF|NOAUTH|WRONGPASS)\b|ACL failure|executing the script can't/
const EVENT = 'refusal'
/** A refusal is logged once in this time, by its code. */
const QUIET_MS = 60_000

/** After a timeout no command is sent to Redis for this time: callers must not queue up behind it. */
const SILENCE_MS = 1_000

export const isCluster = (client: RedisClient): client is Cluster => client.isCluster

const PACKAGE = 'ioredis'
const require = createRequire(import.meta.url)
/** Loads ioredis with the first connection: it takes 11 MiB, and most gateways have no Redis. */
const ioredis = () => require(PACKAGE) as typeof import('ioredis')

/**
 * Makes all Redis connections, at the first command. While Redis is unreachable a command fails after one retry;
 * reconnecting continues with back-off, up to 2 s. Commands of `withRedis` are reported to `observe`.
 */
export function connectRedis(config: RedisConfig, log: Logger, observe?: Observe): RedisClient {
  const client = config.mode === 'cluster' ? cluster(config) : single(config)
  if (observe !== undefined) observers.set(client, observe)
  const logged = new Set<string>()
  // ioredis prints to the console if there is no listener. Each reason of an outage is logged once, not each attempt.
  client.on('error', (error: Error) => {
    if (!logged.has(error.message)) log.warn({ err: withoutCommand(error) }, 'Redis can’t be reached')
    logged.add(error.message)
  })
  logRefusals(client, log)
  client.on('ready', () => {
    if (logged.size > 0) log.info('Redis can be reached again')
    logged.clear()
  })
  return client
}

export { redisKeyPrefix } from '../config/redis-keys.ts'

/**
 * Runs commands; a failure becomes a PublicError `unavailable`. While Redis is known to be unreachable it fails at
 * once.
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

/** The observers of commands, by client. */
const observers = new WeakMap<RedisClient, Observe>()
const ASKED: Operation = { kind: 'store', name: 'redis' }

/** Running attempts to connect. All callers that wait for an attempt share it and its listeners. */
const attempts = new WeakMap<RedisClient, Promise<void>>()

/** Waits for the running attempt only: a Cluster or Sentinel client would retry without end. */
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
        // The `error` event passes the failure to `settle`.
      })
  })
}

const LONGEST_CONNECT_MS = 5_000

const unavailable = (cause: unknown) => new PublicError('unavailable', { headers: { 'Retry-After': '1' }, cause })

/** Removes the command from an error: the arguments of HELLO and AUTH hold the password. */
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
    // Names are not resolved here: a certificate is issued to a name, not to its address.
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
    // After a failover the old master answers READONLY; the client reconnects and sends the command once more.
    reconnectOnError: (error) => (error.message.startsWith('READONLY') ? 2 : false),
    ...(config.tls === undefined ? {} : { tls: tlsOf(config.tls) }),
  }
}

/** Makes the options read the credential files: ioredis takes the credentials from its options whenever it connects. */
function readCredentialsAtConnect(options: RedisOptions, { usernameFile, passwordFile }: RedisConfig): void {
  if (usernameFile !== undefined) Object.defineProperty(options, 'username', { get: readable(usernameFile) })
  if (passwordFile !== undefined) Object.defineProperty(options, 'password', { get: readable(passwordFile) })
}

/**
 * Returns the content of a file, or an empty password, which Redis refuses: if its options threw, ioredis would stay in
 * `connecting` for ever.
 */
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

/** Emits an event if Redis has refused a command permanently. Other errors are ignored. */
function noteRefusal(client: Pick<EventEmitter, 'emit'>, error: Error): void {
  if (LASTING.test(error.message)) client.emit(EVENT, error)
}

/** Logs permanent refusals of Redis: callers are only told that the service is unavailable at the moment. */
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

/** Runs Redis commands for callers that can't wait: while Redis is known to be unreachable commands fail at once. */
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

/** A Lua script that is run by its digest (EVALSHA), so that its text is sent only where Redis does not know it. */
export class RedisScript {
  readonly #text: string
  readonly #digest: string

  constructor(text: string) {
    this.#text = text
    this.#digest = createHash('sha1').update(text).digest('hex')
  }

  /** Runs the script. If Redis does not know it (after a restart or a failover), the script itself is sent. */
  async run(redis: RedisClient, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> {
    try {
      return await redis.evalsha(this.#digest, keys.length, ...keys, ...args)
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
      return redis.eval(this.#text, keys.length, ...keys, ...args)
    }
  }
}

/** Converts Redis settings for `connectRedis`. Paths are relative to the configuration's folder. */
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
