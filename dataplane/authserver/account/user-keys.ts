import { parseDuration } from '../../../crds/settings/duration.ts'
import { keyCheckDefaults } from '../../../crds/settings/gateway/defaults.ts'
import type { KeyProviderConfig } from '../../config/auth-server.ts'
import { compileKeyPattern, type KeyPattern } from '../../config/check/key-pattern.ts'
import { isLoopback } from '../../config/check/url.ts'
import { readAside } from '../../config/read/aside.ts'
import { guardedStatus } from '../../net/guarded-fetch.ts'
import type {
  InjectedHeader,
  LinkOffer,
  Place,
  StoredTokenSet,
  UpstreamTokenStore,
} from '../../upstream-tokens/index.ts'
import type { KeyedHash } from '../keys/keyed-hash.ts'
import type { ShownKey } from '../pages/account-pages.ts'

/** The storage time of a key without an expiry, in milliseconds. Its owner can delete it at any time. */
const KEPT_MS = 10 * 365 * 24 * 3600 * 1000
/** The characters that a key may have: ASCII that a header value may contain (RFC 9110 section 5.5). */
const CHARACTERS = /^[\x20-\x7e]+$/
/** A page shows the last characters of a key of at least this length. They reveal little of it. */
const TOLD_FROM = 16
const TOLD = 4
/** The most match steps on the main thread (about 30 ms), and the time limit of a match on a worker thread. */
const MOST_STEPS = 200_000
const LONGEST_MATCH_MS = 5_000
const NOT_NOW = 'The key can’t be checked now. Try again in a minute.'

/** The reason why a key is not stored. `text` is shown to its owner. */
export class KeyRefused extends Error {
  override readonly name = 'KeyRefused'
  readonly text: string

  constructor(text: string) {
    super(text)
    this.text = text
  }
}

interface UserKeysOptions {
  readonly settings: { readonly issuer: string; readonly keyEndpoint: string }
  readonly providers: readonly KeyProviderConfig[]
  readonly tokens: UpstreamTokenStore
  readonly keyed: () => KeyedHash
  readonly now?: () => number
  /** Called when a backend has refused a user's key. */
  onRefused?(subject: string, provider: string): void
}

/**
 * The API keys that users enter for backends. A user enters a key once. It is sealed in storage under issuer, user and
 * provider, sent to the backends that name the provider, and never shown again.
 */
export class UserKeys {
  readonly #options: UserKeysOptions
  readonly #now: () => number
  readonly #patterns = new Map<string, KeyPattern>()
  #isMatching = false

  constructor(options: UserKeysOptions) {
    this.#options = options
    this.#now = options.now ?? Date.now
  }

  get isUsed(): boolean {
    return this.#options.providers.length > 0
  }

  has(provider: string): boolean {
    return this.#find(provider) !== undefined
  }

  /** Returns the host or title of a provider for texts. */
  findTitle(provider: string): string {
    return this.#find(provider)?.keyConfig.title ?? provider
  }

  #find(name: string): KeyProviderConfig | undefined {
    return this.#options.providers.find((one) => one.name === name)
  }

  #place(subject: string, provider: string): Place {
    return { login: JSON.stringify(['key', this.#options.settings.issuer, subject]), provider }
  }

  /** Returns the user's stored key; undefined if there is none, it has expired, or its owner is somebody else. */
  async #kept(subject: string, provider: string): Promise<StoredTokenSet | undefined> {
    const set = await this.#options.tokens.get(this.#place(subject, provider))
    if (set === undefined || set.owner !== subject) return undefined
    return (set.expiresAt ?? Number.POSITIVE_INFINITY) > this.#now() ? set : undefined
  }

  /**
   * Returns the header with the user's key; undefined if there is none, 'refused' if a backend has refused it.
   * `refused` is the header value that a backend has just rejected; a key with this value is never sent again.
   */
  async header(subject: string, provider: string, refused?: string): Promise<InjectedHeader | 'refused' | undefined> {
    const found = this.#find(provider)
    const set = found && (await this.#kept(subject, provider))
    if (found === undefined || set === undefined) return undefined
    if (set.refusedAt !== undefined) return 'refused'
    const value = headerValue(found, set.accessToken)
    if (value !== refused) return { name: found.keyConfig.headerName.toLowerCase(), value, expiresAt: set.expiresAt }
    const { version, ...key } = set
    const ttlMs = (set.expiresAt ?? this.#now() + KEPT_MS) - this.#now()
    const marked = { ...key, refusedAt: this.#now() }
    const isMarked = await this.#options.tokens.put(this.#place(subject, provider), marked, {
      replaces: version,
      ttlMs,
    })
    if (isMarked !== undefined) this.#options.onRefused?.(subject, provider)
    return 'refused'
  }

  /** Returns every provider's entry for a user, with or without a stored key. */
  async of(subject: string): Promise<readonly ShownKey[]> {
    return Promise.all(this.#options.providers.map(({ name }) => this.show(subject, name) as Promise<ShownKey>))
  }

  async show(subject: string, provider: string): Promise<ShownKey | undefined> {
    const found = this.#find(provider)
    if (found === undefined) return undefined
    const { title, helpUrl, maxLength, remindBefore } = found.keyConfig
    const set = await this.#kept(subject, provider)
    const shown = { provider, title, helpUrl, maxLength }
    if (set === undefined) return shown
    const { accessToken: key, obtainedAt = 0, expiresAt, refusedAt } = set
    const isEnding = expiresAt !== undefined && expiresAt - this.#now() < parseDuration(remindBefore)
    const end = key.length >= TOLD_FROM ? key.slice(-TOLD) : undefined
    const isRefused = refusedAt !== undefined
    const kept = { since: obtainedAt, end, isEnding, isRefused, ...(expiresAt !== undefined && { endsAt: expiresAt }) }
    return { ...shown, kept }
  }

  /**
   * Stores a user's key. Throws KeyRefused if the key has the wrong form or the server rejects it. Returns whether it
   * replaces an earlier key.
   */
  async set(subject: string, provider: string, typed: string): Promise<'set' | 'replaced'> {
    const found = this.#find(provider)
    if (found === undefined) throw new KeyRefused('This key is no longer needed here.')
    const key = await this.#checked(found, typed)
    await this.#verify(found, key)
    const before = await this.#kept(subject, provider)
    const now = this.#now()
    const { maxLifetime } = found.keyConfig
    const ttlMs = maxLifetime === undefined ? KEPT_MS : parseDuration(maxLifetime)
    const set = {
      owner: subject,
      subject,
      accessToken: key,
      obtainedAt: now,
      ...(maxLifetime !== undefined && { expiresAt: now + ttlMs }),
    }
    await this.#options.tokens.put(this.#place(subject, provider), set, { ttlMs })
    return before === undefined ? 'set' : 'replaced'
  }

  /** Deletes a user's key. Returns whether there was one. */
  async remove(subject: string, provider: string): Promise<boolean> {
    const before = await this.#kept(subject, provider)
    await this.#options.tokens.remove(this.#place(subject, provider))
    return before !== undefined
  }

  async removeAll(subject: string): Promise<void> {
    await Promise.all(this.#options.providers.map(({ name }) => this.remove(subject, name)))
  }

  /**
   * Returns the link with which this user, and nobody else, enters a key. The link is not secret and does not expire.
   */
  offer(subject: string, provider: string, isRefused: boolean): LinkOffer {
    const { keyed, settings } = this.#options
    const proof = keyed().of('key-link', JSON.stringify([subject, provider]))
    const query = new URLSearchParams({ provider, for: proof })
    return {
      id: keyed().of('link-id', proof),
      url: `${settings.keyEndpoint}?${query}`,
      provider,
      key: { title: this.findTitle(provider), isRefused },
    }
  }

  /** Tells whether a link was made for this user. */
  isFor(subject: string, provider: string, proof: string): boolean {
    return this.#options.keyed().matches('key-link', JSON.stringify([subject, provider]), proof)
  }

  async #checked({ keyConfig }: KeyProviderConfig, typed: string): Promise<string> {
    const { maxLength, pattern } = keyConfig
    // Users paste keys, often with a line break or blanks around them.
    const key = typed.trim()
    if (key === '') throw new KeyRefused('No key was entered.')
    if (key.length > maxLength) throw new KeyRefused(`A key has at most ${maxLength} characters.`)
    if (!CHARACTERS.test(key)) throw new KeyRefused('A key has only letters, digits and signs, on one line.')
    if (pattern !== undefined && !(await this.#fits(pattern, key)))
      throw new KeyRefused('This does not look like such a key. Did you copy all of it?')
    return key
  }

  /**
   * Tells whether a key matches its pattern. A match that could block other requests runs on a worker thread, one key
   * at a time.
   */
  async #fits(pattern: string, key: string): Promise<boolean> {
    let compiled = this.#patterns.get(pattern)
    if (compiled === undefined) this.#patterns.set(pattern, (compiled = compileKeyPattern(pattern)))
    if (compiled.size * key.length <= MOST_STEPS) return compiled.matches(key)
    if (this.#isMatching) throw new KeyRefused(NOT_NOW)
    this.#isMatching = true
    try {
      return await readAside<boolean>('key', JSON.stringify([pattern, key]), undefined, LONGEST_MATCH_MS)
    } catch {
      throw new KeyRefused(NOT_NOW)
    } finally {
      this.#isMatching = false
    }
  }

  /** Asks the server whether the key is valid. Only the status of its answer is read. */
  async #verify(provider: KeyProviderConfig, key: string): Promise<void> {
    const { title, verify, headerName } = provider.keyConfig
    if (verify === undefined) return
    const { url, method, expectStatus, timeout } = { ...keyCheckDefaults, ...verify }
    const status = await guardedStatus(url, {
      method,
      headers: { accept: '*/*', [headerName.toLowerCase()]: headerValue(provider, key) },
      timeoutMs: parseDuration(timeout),
      allowPrivateIP: false,
      allowLoopback: isLoopback(new URL(this.#options.settings.issuer)),
    }).catch(() => {
      throw new KeyRefused(`${title} could not be asked whether the key is good. Try again in a minute.`)
    })
    if (!expectStatus.includes(status)) throw new KeyRefused(`${title} refuses this key (status ${status}).`)
  }
}

const headerValue = ({ keyConfig }: KeyProviderConfig, key: string): string =>
  keyConfig.valueTemplate.replaceAll('{key}', () => key)
