import { resolve } from 'node:path'
import type { BackendConfig } from '../../../config/gateway.ts'
import { type ReadSecretFile, secretFile } from '../../../config/secret-file.ts'
import {
  type CallerCredential,
  type Credential,
  CredentialError,
  MARGIN_MS,
  type Strategy,
} from '../../../credentials/index.ts'
import type { MakeLink } from '../../../upstream-tokens/index.ts'
import { BackendFailure } from './failure.ts'

/** Headers as a flat list of names and values. `version` changes with the values. */
interface HeaderList {
  readonly version: number
  readonly list: readonly string[]
}

/** The headers of requests to a backend, without those of the protocol. */
export interface BackendHeaders {
  /**
   * Returns the current headers. Throws a BackendFailure if they are unavailable, because a request without its
   * credential must not be sent.
   */
  current(): HeaderList
}

/**
 * The headers of requests to a backend for one caller: the configured ones, overridden by those of the caller's own
 * credential.
 */
export class CallerHeaders implements BackendHeaders {
  readonly #backend: string
  readonly #configured: BackendHeaders
  readonly #credential: CallerCredential
  #configuredVersion = -1
  #of: CallerCredential['current']
  /** The caller's text why the last attempt obtained no credential; undefined if it did. */
  #problem: string | undefined
  /** The attempts in progress. */
  #tries = 0
  /** Creates the link by which the caller obtains a credential; undefined if the caller can't. */
  link: MakeLink | undefined
  #current: HeaderList = { version: 0, list: [] }

  constructor(backend: string, configured: BackendHeaders, credential: CallerCredential) {
    this.#backend = backend
    this.#configured = configured
    this.#credential = credential
  }

  /** The caller's text why there is no credential; undefined if there is one. */
  get problem(): string | undefined {
    // A provider may take longer than a caller waits for lists, which is not the backend's fault.
    const isWaiting = this.#problem === undefined && this.#tries > 0
    return isWaiting ? `The credential for the backend ${JSON.stringify(this.#backend)} is awaited.` : this.#problem
  }

  /**
   * Returns the current headers. Throws a BackendFailure if there is no credential, because a request without it must
   * not be sent.
   */
  current(): HeaderList {
    const configured = this.#configured.current()
    const { current } = this.#credential
    if (current === undefined || (current.expiresAt ?? Number.POSITIVE_INFINITY) <= Date.now())
      throw new BackendFailure('backend_unavailable', 'there is no credential of the caller')
    if (this.#of !== current || this.#configuredVersion !== configured.version) {
      this.#of = current
      this.#configuredVersion = configured.version
      this.#current = { version: this.#current.version + 1, list: mergeHeaders(configured.list, current.headers) }
    }
    return this.#current
  }

  /**
   * Returns undefined if there is a credential, else a promise that resolves when there is one. It rejects with a
   * BackendFailure for callers.
   */
  needed(): Promise<unknown> | undefined {
    const needed = this.#credential.needed()
    return needed === undefined ? undefined : this.#settled(needed)
  }

  /** True if a refused credential is final: the gateway can't obtain another, so the caller must send one. */
  get isFinal(): boolean {
    return this.#credential.isFinal
  }

  get credential(): Credential | undefined {
    return this.#credential.current
  }

  /**
   * Obtains another credential, unless the current one already differs from `refused`, which the backend has rejected.
   * Rejects as `needed` does.
   */
  renewed(refused: Credential | undefined): Promise<unknown> {
    return this.#settled(this.#credential.renewed(refused))
  }

  refused(status: number): BackendFailure {
    return new BackendFailure('backend_failed', `refuses the caller’s credential with HTTP ${status}`, {
      status,
      text: `The backend ${JSON.stringify(this.#backend)} refuses your credential.`,
    })
  }

  #settled(tried: Promise<unknown>): Promise<unknown> {
    this.#tries++
    return tried.finally(() => this.#tries--).then(this.#obtained, this.#failed)
  }

  readonly #obtained = (): void => {
    this.#problem = undefined
    this.link = undefined
  }

  readonly #failed = (error: unknown): never => {
    if (!(error instanceof CredentialError)) throw error
    const text = `The credential for the backend ${JSON.stringify(this.#backend)} is unavailable: ${error.text}.`
    const { link } = error
    this.#problem = text
    this.link = link
    throw new BackendFailure('backend_unavailable', error.message, { cause: error, text, link })
  }
}

/** Merges two flat lists. The second one's values replace those of the same name. */
export function mergeHeaders(list: readonly string[], over: readonly string[]): string[] {
  const replaced = new Set(over.filter((_text, index) => index % 2 === 0).map((name) => name.toLowerCase()))
  const kept = list.filter((_text, index) => !replaced.has((list[index - (index % 2)] as string).toLowerCase()))
  return [...kept, ...over]
}

/**
 * The headers of the gateway's own probes to a backend for which each caller has a credential. They never carry a
 * caller's credential, but they carry the gateway's own if the strategy has one (client credentials).
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

  /** Obtains the gateway's own credential if the strategy has one and none is valid. */
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

/**
 * The headers that the configuration adds to each request to a backend. Values from files are read again when a file
 * changes.
 */
export class ConfiguredHeaders implements BackendHeaders {
  readonly #fixed: readonly string[]
  readonly #files: readonly { readonly name: string; readonly prefix: string; readonly read: ReadSecretFile }[]
  #current: HeaderList

  constructor({ headers = {}, headerFiles = [] }: BackendConfig, directory: string) {
    this.#fixed = Object.entries(headers).flat()
    this.#files = headerFiles.map(({ name, file, prefix = '' }) => ({
      name,
      prefix,
      read: secretFile(resolve(directory, file)),
    }))
    this.#current = { version: 0, list: this.#fixed }
  }

  /**
   * Returns the current headers. Throws a BackendFailure if a file can't be read or contains an invalid header value,
   * because a request without its credential must not be sent.
   */
  current(): HeaderList {
    if (this.#files.length === 0) return this.#current
    const list = [...this.#fixed]
    let changed = this.#current.version === 0
    for (const { name, prefix, read } of this.#files) {
      const value = prefix + readValue(name, read)
      changed ||= this.#current.list[list.length + 1] !== value
      list.push(name, value)
    }
    if (changed) this.#current = { version: this.#current.version + 1, list }
    return this.#current
  }
}

function readValue(name: string, read: ReadSecretFile): string {
  let value: string
  try {
    value = read()
  } catch (cause) {
    throw new BackendFailure('backend_unavailable', `header ${name}: ${(cause as Error).message}`, { cause })
  }
  if (value === '' || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
    throw new BackendFailure('backend_unavailable', `header ${name}: the file holds no header value`)
  return value
}
