import { type Credential, MARGIN_MS, type Strategy } from '../../../credentials/index.ts'
import { mergeHeaders } from './caller-headers.ts'
import type { BackendHeaders, HeaderList } from './headers.ts'

/**
 * The headers of the gateway's own probes to a backend for which each caller has a credential of their own: never one of
 * those; one of the gateway itself, where the strategy has such (client credentials).
 */
export class OwnHeaders implements BackendHeaders {
  readonly #configured: BackendHeaders
  readonly #strategy: Strategy
  #credential: Credential | undefined
  #version = 0

  constructor(configured: BackendHeaders, strategy: Strategy) {
    this.#configured = configured
    this.#strategy = strategy
  }

  current(): HeaderList {
    const { version, list } = this.#configured.current()
    const headers = this.#lasts(0) ? this.#credential?.headers : undefined
    if (headers === undefined) return { version, list }
    return { version: version * 1_000 + this.#version, list: mergeHeaders(list, headers) }
  }

  /** Obtains a credential of the gateway itself where there is one to be had and none lasts. */
  async authorize(): Promise<void> {
    const { obtainOwn } = this.#strategy
    if (obtainOwn === undefined || this.#lasts(MARGIN_MS)) return
    this.#credential = undefined
    this.#credential = await obtainOwn()
    this.#version++
  }

  #lasts(marginMs: number): boolean {
    return this.#credential !== undefined && (this.#credential.expiresAt ?? 0) - marginMs > Date.now()
  }
}
