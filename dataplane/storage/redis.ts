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

type RedisTls = NonNullable<RedisSettings['tls']>

/**
 * The connection to Redis: to one server, a Cluster, which has database 0 alone, or the server that Sentinel names as
 * the master. Paths are absolute. The files are read whenever a connection is opened, so a rotated password works
 * without a restart.
 */
export interface RedisConfig extends Omit<RedisSettings, 'mode' | 'addresses' | keyof typeof redisTimeouts> {
  readonly mode: NonNullable<RedisSettings['mode']>
  /** Addresses of the server, of some cluster nodes, or of the sentinels. */
  readonly addresses: readonly string[]
  readonly dialTimeoutMs?: number
  readonly commandTimeoutMs?: number
}

export type RedisClient = Redis | Cluster

/** Errors of Redis that stay until an administrator changes its settings, or the rights of our user. */
const PERMANENT = /\b(?:NOPERM|OOM|MISCONF|NOAUTH|WRONGPASS)\b|ACL failure|executing the script can't/
const EVENT = 'refusal'
/** Refusals with the same code are logged once in this time. */
const QUIET_MS = 60_000

/** After a timeout no command is sent to Redis for this time, so that callers don't queue up. */
const SILENCE_MS = 1_000

export const isCluster = (client: RedisClient): client is Cluster => client.isCluster

const PACKAGE = 'ioredis'
const require = createRequire(import.meta.url)
/** Loads ioredis with the first connection. It takes 11 MiB, and most gateways have no Redis. */
const loadPackage = () => require(PACKAGE) as typeof import('ioredis')

/**
 * Creates a client, which connects at the first command. While Redis is unreachable, commands fail after one retry, and
 * the client reconnects with back-off, up to 2 s. `observe` gets the commands of `withRedis`.
 */
export function connectRedis(config: RedisConfig, log: Logger, observe?: Observe): RedisClient {
  const client = config.mode === 'cluster' ? cluster(config) : single(config)
  if (observe !== undefined) observers.set(client, observe)
  const logged = new Set<string>()
  // ioredis prints to the console if there is no listener. Each reason of an outage is logged once.
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

export { redisKeyPrefix } from '../config/check/redis.ts'

/** Runs commands. A failure becomes a PublicError `unavailable`; while Redis is known to be unreachable, at once. */
export async function withRedis<T>(client: RedisClient, run: (client: RedisClient) => Promise<T>): Promise<T> {
  const observed = observers.get(client)?.(ASKED)
  try {
    if (client.status !== 'ready') await waitForConnection(client)
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

const observers = new WeakMap<RedisClient, Observe>()
const ASKED: Operation = { kind: 'store', name: 'redis' }

/** The running attempts to connect. Callers that wait for an attempt share it and its listeners. */
const attempts = new WeakMap<RedisClient, Promise<void>>()

/** Waits for the current attempt, since a Cluster or Sentinel client retries without end. */
function waitForConnection(client: RedisClient): Promise<void> {
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

/** Copies an error without its command, since the arguments of HELLO and AUTH have the password. */
const withoutCommand = (error: unknown): Error => new Error(error instanceof Error ? error.message : String(error))

function single(config: RedisConfig): Redis {
  const [first, ...others] = config.addresses.map(parseAddress)
  if (first === undefined) throw new TypeError('no address of Redis')
  const options = buildOptions(config)
  const { Redis } = loadPackage()
  const redis =
    config.mode === 'sentinel'
      ? new Redis({
          ...options,
          sentinels: [first, ...others],
          name: config.masterName ?? 'mymaster',
          sentinelRetryStrategy: backoff,
          ...(config.sentinelTls === undefined
            ? {}
            : { enableTLSForSentinelMode: true, sentinelTLS: buildTls(config.sentinelTls) }),
        })
      : new Redis({ ...options, ...first })
  readCredentialsAtConnect(redis.options, config)
  return redis
}

function cluster(config: RedisConfig): Cluster {
  const { Cluster } = loadPackage()
  const cluster = new Cluster(config.addresses.map(parseAddress), {
    redisOptions: buildOptions({ ...config, db: 0 }),
    clusterRetryStrategy: backoff,
    lazyConnect: true,
    enableOfflineQueue: true,
    // Names are not resolved here, since a certificate is for a name and not for its address.
    dnsLookup: (address, done) => done(null, address),
  })
  cluster.on('+node', (node: Redis) => readCredentialsAtConnect(node.options, config))
  return cluster
}

function buildOptions(config: RedisConfig): RedisOptions {
  return {
    db: config.db ?? 0,
    lazyConnect: true,
    connectTimeout: config.dialTimeoutMs ?? 5_000,
    commandTimeout: config.commandTimeoutMs ?? 3_000,
    maxRetriesPerRequest: 1,
    retryStrategy: backoff,
    // After a failover the old master answers READONLY. 2 means: reconnect and send the command again.
    reconnectOnError: (error) => (error.message.startsWith('READONLY') ? 2 : false),
    ...(config.tls === undefined ? {} : { tls: buildTls(config.tls) }),
  }
}

/** Makes the options read the credential files, since ioredis takes credentials from them whenever it connects. */
function readCredentialsAtConnect(options: RedisOptions, { usernameFile, passwordFile }: RedisConfig): void {
  if (usernameFile !== undefined) Object.defineProperty(options, 'username', { get: createFileReader(usernameFile) })
  if (passwordFile !== undefined) Object.defineProperty(options, 'password', { get: createFileReader(passwordFile) })
}

/**
 * Creates the function that reads a file. It returns an empty text if it can't, since ioredis would stay in
 * `connecting` for ever if its options threw.
 */
function createFileReader(file: string): () => string {
  const read = secretFile(file)
  return () => {
    try {
      return read()
    } catch {
      // Redis refuses an empty password, and the next attempt reads the file again.
      return ''
    }
  }
}

/** Returns the wait before an attempt in milliseconds; `times` counts from 1. */
const backoff = (times: number): number => backoffDelay(times - 1, { first: 50, longest: 2_000, random: whole })

function buildTls({ caFile, insecureSkipVerify = false }: RedisTls): ConnectionOptions {
  const rejectUnauthorized = !insecureSkipVerify
  if (caFile === undefined) return { rejectUnauthorized }
  const read = createFileReader(caFile)
  return {
    rejectUnauthorized,
    get ca() {
      return [...getCACertificates('default'), read()].filter((pem) => pem !== '')
    },
  }
}

/** Parses `host:port`, an IPv6 host in brackets. */
function parseAddress(address: string): { readonly host: string; readonly port: number } {
  const url = URL.parse(`redis://${address}`)
  if (url === null || url.hostname === '') throw new TypeError(`not an address of Redis: ${JSON.stringify(address)}`)
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || 6379) }
}

/** Emits an event if an error is permanent. */
function noteRefusal(client: Pick<EventEmitter, 'emit'>, error: Error): void {
  if (PERMANENT.test(error.message)) client.emit(EVENT, error)
}

/** Logs permanent refusals of Redis, since callers only learn that the service is unavailable. */
function logRefusals(client: Pick<EventEmitter, 'on'>, log: Pick<Logger, 'error'>): void {
  const saidAt = new Map<string, number>()
  client.on(EVENT, (error: Error) => {
    const [code = ''] = PERMANENT.exec(error.message) ?? []
    const now = performance.now()
    if (now - (saidAt.get(code) ?? Number.NEGATIVE_INFINITY) < QUIET_MS) return
    saidAt.set(code, now)
    log.error({ err: error }, 'Redis refuses what is needed: see its memory, and the rights of its user')
  })
}

/** Runs commands for callers that can't wait. While Redis is known to be unreachable they fail at once. */
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

  /** Throws the PublicError `unavailable` while Redis is known to be unreachable. */
  checkHere(): void {
    if ((this.#away && this.client.status !== 'ready') || performance.now() < this.#silentUntil)
      throw new PublicError('unavailable', { headers: { 'Retry-After': '1' } })
  }

  /** Runs commands, and waits for the first connection only. Rejects with the PublicError `unavailable`. */
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

/** A Lua script. It is run by its digest (EVALSHA), so that its text is sent only if Redis does not know it. */
export class RedisScript {
  readonly #text: string
  readonly #digest: string

  constructor(text: string) {
    this.#text = text
    this.#digest = createHash('sha1').update(text).digest('hex')
  }

  /** Runs the script. If Redis does not know it, after a restart or failover, its text is sent. */
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
export function buildRedisConfig(settings: RedisSettings, directory: string): RedisConfig {
  const { dialTimeout, readTimeout, writeTimeout, mode = 'standalone', ...others } = { ...redisTimeouts, ...settings }
  const { usernameFile, passwordFile, tls, sentinelTls } = others
  const resolveCa = (of: RedisTls): RedisTls =>
    of.caFile === undefined ? of : { ...of, caFile: resolve(directory, of.caFile) }
  return {
    ...others,
    mode,
    ...(usernameFile !== undefined && { usernameFile: resolve(directory, usernameFile) }),
    ...(passwordFile !== undefined && { passwordFile: resolve(directory, passwordFile) }),
    ...(tls !== undefined && { tls: resolveCa(tls) }),
    ...(sentinelTls !== undefined && { sentinelTls: resolveCa(sentinelTls) }),
    dialTimeoutMs: parseTimer(dialTimeout),
    // One timeout for writing a command and reading its answer.
    commandTimeoutMs: Math.min(parseTimer(readTimeout) + parseTimer(writeTimeout), parseTimer('596h')),
  }
}
