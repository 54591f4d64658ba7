import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Auditing } from '../../audit/event.ts'
import type { AuthServer, OwnResource } from '../../authserver/index.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Loaded } from '../../config/load.ts'
import type { AuthServerStatus } from '../../config/status.ts'
import { noUpstreamTokens, storedUpstreamTokens, type UpstreamTokens } from '../../credentials/index.ts'
import type { LocalIssuer } from '../../identity/index.ts'
import { PublicError } from '../../server/errors.ts'
import type { Observe } from '../../telemetry/observe.ts'
import { type ClientAddressOf, peerAddress } from './client-address.ts'

/** A request that was under way when another configuration came is over by then. */
const LONGEST_REQUEST_MS = 30_000

interface OwnIssuerOptions {
  readonly log: Logger
  readonly audit: Auditing
  readonly observe: Observe
  /** Memory that this process may take, in bytes, where it is limited. */
  readonly memoryBytes: number | undefined
  /** In place of those that users get here at login; for tests. */
  readonly upstreamTokens: UpstreamTokens | undefined
}

/**
 * The authorization server of a gateway, where its configuration has one. The code for it is loaded with the first
 * configuration that does: other gateways need none of it.
 */
export class OwnIssuer {
  /** What providers gave callers at login. */
  readonly upstreamTokens: UpstreamTokens
  readonly #log: Logger
  readonly #audit: Auditing
  readonly #memoryBytes: number | undefined
  readonly #observe: Observe
  readonly #hasOthers: boolean
  #addressOf: ClientAddressOf = peerAddress
  #key = ''
  #issuer: string | undefined
  #loading: Promise<AuthServer> | undefined
  #server: AuthServer | undefined
  readonly #closing = new AbortController()
  /** Servers that are about to be closed. */
  readonly #retiring = new Set<Promise<void>>()

  constructor({ log, audit, observe, memoryBytes, upstreamTokens }: OwnIssuerOptions) {
    this.#log = log
    this.#audit = audit
    this.#memoryBytes = memoryBytes
    this.#observe = observe
    this.#hasOthers = upstreamTokens !== undefined
    this.upstreamTokens = upstreamTokens ?? this.#ownTokens()
  }

  /** Whether callers have logins, each with tokens of its own. */
  get hasLogins(): boolean {
    return this.#hasOthers || this.#issuer !== undefined
  }

  /** Puts a configuration in force; `own` is what the gateway's tokens are for. */
  follow({ config, directory }: Loaded<GatewayConfig>, own: OwnResource, addressOf: ClientAddressOf): void {
    this.#addressOf = addressOf
    const { authServer, name, namespace, role = 'gateway' } = config
    const workload = { kind: role, namespace, name }
    const key = authServer === undefined ? '' : JSON.stringify([authServer, directory, own, workload])
    if (key === this.#key) return
    const before = this.#loading
    this.#key = key
    this.#issuer = authServer?.issuer
    this.#loading = undefined
    if (authServer !== undefined) {
      const log = this.#log
      const shared = { audit: this.#audit, observe: this.#observe, log, memoryBytes: this.#memoryBytes }
      const options = { config: authServer, directory, workload, own, ...shared }
      const loading = load(before, { ...options, addressOf: (request) => this.#addressOf(request) })
      this.#loading = loading
      loading.then(
        (server) => {
          if (this.#loading === loading) this.#server = server
        },
        (error: unknown) => log.error({ err: error }, 'the authorization server can’t be loaded'),
      )
    } else this.#server = undefined
    if (before === undefined) return
    const retiring = before
      .then((server) => this.#retire(server))
      .catch((error: unknown) => this.#log.warn({ err: error }, 'closing an authorization server'))
      .finally(() => this.#retiring.delete(retiring))
    this.#retiring.add(retiring)
  }

  /**
   * Closes a server once the one that takes its place has what it goes on with, and what has begun here can be over:
   * somebody comes back from a provider, and their tokens are being fetched.
   */
  async #retire(server: AuthServer): Promise<void> {
    await delay(LONGEST_REQUEST_MS, undefined, { signal: this.#closing.signal, ref: false }).catch(() => undefined)
    const next = await this.#loading?.catch(() => undefined)
    await server.close(next)
  }

  /** The server in force; undefined where none is configured. Rejects with a PublicError where it could not be loaded. */
  async current(): Promise<AuthServer | undefined> {
    try {
      return await this.#loading
    } catch (cause) {
      throw new PublicError('unavailable', { cause })
    }
  }

  /** How it stands; undefined where none is configured or it is being loaded. */
  get status(): AuthServerStatus | undefined {
    return this.#server?.status()
  }

  /** What checks its tokens, whichever server is in force; undefined where none is configured. */
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
        refresh: (place, before) => server.refresh.refresh(place, before),
        linkOf: (place, owner) =>
          server.loginLinks.has(place.provider) ? () => server.loginLinks.offer({ ...place, owner }) : undefined,
      })
    }
    return {
      accessToken: async (...asked) => (await tokens()).accessToken(...asked),
      idToken: async (...asked) => (await tokens()).idToken(...asked),
      identity: async (...asked) => (await tokens()).identity(...asked),
    }
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all(this.#retiring)
    const server = await this.#loading?.catch(() => undefined)
    await server?.close()
  }
}

async function load(
  before: Promise<AuthServer> | undefined,
  options: Parameters<typeof import('../../authserver/index.ts').createAuthServer>[0],
): Promise<AuthServer> {
  const { createAuthServer } = await import('../../authserver/index.ts')
  return createAuthServer(options, await before?.catch(() => undefined))
}
