import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Auditing } from '../../audit/event.ts'
import type { AuthServer, AuthServerOptions, OwnResource } from '../../authserver/index.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Loaded } from '../../config/load.ts'
import type { AuthServerStatus } from '../../config/status.ts'
import { noUpstreamTokens, storedUpstreamTokens, type UpstreamTokens } from '../../credentials/index.ts'
import type { LocalIssuer } from '../../identity/index.ts'
import { backoffDelay } from '../../retry/backoff.ts'
import { PublicError } from '../../server/errors.ts'
import { type ClientAddressOf, peerAddress } from '../../server/network-of.ts'
import type { Observe } from '../../telemetry/observe.ts'

/** The longest request under an earlier configuration. */
const LONGEST_REQUEST_MS = 30_000

/** Creates an authorization server that takes over the state of the one before it. */
type CreateAuthServer = (options: AuthServerOptions, before: AuthServer | undefined) => Promise<AuthServer>

interface OwnIssuerOptions {
  readonly log: Logger
  readonly audit: Auditing
  readonly observe: Observe
  /** The memory limit of this process in bytes, if it has one. */
  readonly memoryBytes: number | undefined
  /** Replaces the tokens that users get here at login; for tests. */
  readonly upstreamTokens?: UpstreamTokens | undefined
  /** Replaces the loading of the server's code; for tests. */
  readonly create?: CreateAuthServer
}

/**
 * The authorization server of a gateway, if its configuration has one. Its code is loaded with the first configuration
 * that has one: other gateways don't need it.
 */
export class OwnIssuer {
  /** The tokens that providers gave callers at login. */
  readonly upstreamTokens: UpstreamTokens
  /** True if callers have logins, each with its own tokens. */
  hasLogins: boolean
  readonly #options: OwnIssuerOptions
  #addressOf: ClientAddressOf = peerAddress
  #key = ''
  #issuer: string | undefined
  #loading: Loading<AuthServer> | undefined
  /** The last server that could be loaded, whose storage and keys the next one takes over. */
  #latest: Promise<AuthServer | undefined> = Promise.resolve(undefined)
  #server: AuthServer | undefined
  readonly #closing = new AbortController()
  readonly #retiring = new Set<Promise<void>>()

  constructor(options: OwnIssuerOptions) {
    this.#options = options
    this.hasLogins = options.upstreamTokens !== undefined
    this.upstreamTokens = options.upstreamTokens ?? this.#ownTokens()
  }

  /** Applies a configuration; `own` is the audience of the gateway's tokens. */
  follow({ config, directory }: Loaded<GatewayConfig>, own: OwnResource, addressOf: ClientAddressOf): void {
    this.#addressOf = addressOf
    const { authServer, name, namespace, role = 'gateway' } = config
    const workload = { kind: role, namespace, name }
    const key = authServer === undefined ? '' : JSON.stringify([authServer, directory, own, workload])
    if (key === this.#key) return
    const before = this.#loading
    before?.giveUp()
    this.#key = key
    this.#issuer = authServer?.issuer
    const { log, audit, observe, memoryBytes, upstreamTokens } = this.#options
    this.hasLogins = upstreamTokens !== undefined || authServer !== undefined
    if (authServer === undefined) {
      this.#loading = undefined
      this.#latest = Promise.resolve(undefined)
      this.#server = undefined
    } else {
      const options = { config: authServer, directory, workload, own, audit, observe, log, memoryBytes }
      this.#load({ ...options, addressOf: (request) => this.#addressOf(request) })
    }
    if (before === undefined) return
    const retiring = this.#retire(before, this.#loading)
      .catch((error: unknown) => log.warn({ err: error }, 'an authorization server could not be closed'))
      .finally(() => this.#retiring.delete(retiring))
    this.#retiring.add(retiring)
  }

  #load(options: AuthServerOptions): void {
    const { log, create = createFromCode } = this.#options
    const before = this.#latest
    let problem: string | undefined
    const loading = new Loading(
      async () => {
        const server = await create(options, await before)
        if (problem !== undefined) log.info('the authorization server is loaded')
        return server
      },
      (error) => {
        const { message } = error as Error
        if (message !== problem) log.error({ err: error }, 'the authorization server can’t be loaded')
        problem = message
      },
    )
    this.#loading = loading
    this.#latest = this.#whenLoaded(loading, before)
  }

  async #whenLoaded(loading: Loading<AuthServer>, before: Promise<AuthServer | undefined>) {
    const server = await loading.outcome
    if (server === undefined) return before
    if (this.#loading === loading) this.#server = server
    return server
  }

  /**
   * Closes a server once its successor has taken over its state and logins under way have had time to end: a user comes
   * back from a provider, and their tokens are fetched.
   */
  async #retire(loading: Loading<AuthServer>, next: Loading<AuthServer> | undefined): Promise<void> {
    const server = await loading.outcome
    if (server === undefined) return
    await delay(LONGEST_REQUEST_MS, undefined, { signal: this.#closing.signal, ref: false }).catch(() => undefined)
    await server.close((await next?.outcome) ?? (await this.#loaded()))
  }

  /** Returns the server in force once it is loaded; undefined if none is configured by then, or the gateway closes. */
  async #loaded(): Promise<AuthServer | undefined> {
    for (let loading = this.#loading; loading !== undefined; loading = this.#loading) {
      const server = await loading.outcome
      if (server !== undefined || loading === this.#loading) return server
    }
    return undefined
  }

  /** Returns the server in force; undefined if none is configured. Rejects with a PublicError if it failed to load. */
  async current(): Promise<AuthServer | undefined> {
    try {
      return await this.#loading?.current
    } catch (cause) {
      throw new PublicError('unavailable', { headers: { 'Retry-After': '1' }, cause })
    }
  }

  /** The server's status; undefined if none is configured or it is being loaded. */
  get status(): AuthServerStatus | undefined {
    return this.#server?.status()
  }

  /** The verifier of its tokens, whichever server is in force; undefined if none is configured. */
  get local(): LocalIssuer | undefined {
    const issuer = this.#issuer
    if (issuer === undefined) return undefined
    return {
      issuer,
      findKey: async (...lookup) => {
        const server = await this.current()
        if (server === undefined) throw new PublicError('unavailable')
        return server.local.findKey(...lookup)
      },
      isRevoked: (claims) => this.#server?.local.isRevoked(claims) === true,
    }
  }

  #ownTokens(): UpstreamTokens {
    const tokens = async () => {
      const server = await this.current()
      if (server === undefined) return noUpstreamTokens
      return storedUpstreamTokens(server.tokens, {
        issuer: server.local.issuer,
        isFiltered: server.isFiltered,
        keys: server.keys,
        refresh: (place, before) => server.refresh.refresh(place, before),
        isPerUser: (provider) => server.loginLinks.isPerUser(provider),
        linkOf: (place, caller) =>
          server.loginLinks.has(place.provider) ? () => server.loginLinks.offer(place, caller) : undefined,
      })
    }
    return {
      accessToken: async (...asked) => (await tokens()).accessToken(...asked),
      header: async (...asked) => (await tokens()).header(...asked),
      idToken: async (...asked) => (await tokens()).idToken(...asked),
      identity: async (...asked) => (await tokens()).identity(...asked),
      stored: async (...asked) => (await tokens()).stored(...asked),
    }
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#loading?.giveUp()
    await Promise.all(this.#retiring)
    const server = await this.#loading?.outcome
    await server?.close()
  }
}

/** Loads the code; later calls find it loaded. If reading it failed, it is read again. */
const createFromCode: CreateAuthServer = async (options, before) => {
  const { createAuthServer } = await import('../../authserver/index.ts')
  return createAuthServer(options, before)
}

const PAUSES = { first: 500, longest: 15_000 }

class Loading<T> {
  /** The loaded value; undefined if loading was given up before. Never rejects. */
  readonly outcome: Promise<T | undefined>
  readonly #stop = new AbortController()
  /** The promise of the latest attempt, already rejected during a pause. */
  current: Promise<T>

  constructor(load: () => Promise<T>, onFailure: (error: unknown) => void) {
    this.current = load()
    this.outcome = this.#run(load, onFailure)
  }

  giveUp(): void {
    this.#stop.abort()
  }

  async #run(load: () => Promise<T>, onFailure: (error: unknown) => void): Promise<T | undefined> {
    const { signal } = this.#stop
    for (let failures = 0; ; failures++)
      try {
        return await this.current
      } catch (error) {
        onFailure(error)
        await delay(backoffDelay(failures, PAUSES), undefined, { signal, ref: false }).catch(() => undefined)
        if (signal.aborted) return undefined
        this.current = load()
      }
  }
}
