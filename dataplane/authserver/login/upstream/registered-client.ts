import { hash } from 'node:crypto'
import { resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { DcrConfig, OAuth2UpstreamConfig } from '../../../config/auth-server.ts'
import { isLoopback } from '../../../config/check/url.ts'
import { secretFile } from '../../../config/secret-file.ts'
import type { GuardedFetch } from '../../../net/guarded-fetch.ts'
import type { Sealer } from '../../../upstream-tokens/index.ts'
import type { RecordStore } from '../../store/record-store.ts'
import { statusFault, toFault } from './provider-fault.ts'
import { objectIn, ProviderResponse, providerFetch, UnusableAnswer } from './provider-fetch.ts'

/** A client that a provider has registered (RFC 7591 section 3.2.1). */
export interface RegisteredClient {
  readonly id: string
  readonly secret?: string
  readonly method: AuthMethod
  /** Both in seconds since 1970. Without `endsAt` the registration does not expire. */
  readonly registeredAt: number
  readonly endsAt?: number
}

type AuthMethod = (typeof METHODS)[number]

/** The storage of the registrations, which all replicas share. */
export interface RegistrationStore {
  readonly store: RecordStore
  /** Seals the records, because they hold secrets. */
  readonly sealer: Sealer
}

interface RegistrationOptions extends RegistrationStore {
  readonly config: OAuth2UpstreamConfig & { readonly dcrConfig: DcrConfig }
  readonly directory: string
  readonly redirectUri: string
  readonly now?: () => number
}

export type Registration = ReturnType<typeof createRegistration>

const METHODS = ['client_secret_basic', 'client_secret_post', 'none'] as const
/** The time for which a replica caches the client, in milliseconds. */
const KNOWN_MS = 60_000
/** The pause after a failed registration, however many users log in, in milliseconds. */
const PAUSE_MS = 5_000
/** A registration that is unused for this time is made again, in seconds. */
const UNUSED_S = 365 * 24 * 60 * 60
/** The lease of a registration, in seconds, longer than one takes. If a replica dies, others wait this long. */
const LOCK_S = 30
const LOOK_AGAIN_MS = 100
/** The time before its end at which a secret is replaced, at most a tenth of its life. */
const EARLY_S = 24 * 60 * 60
const TEXT = /^[\x21-\x7e]{1,4096}$/

/** Registers the gateway at a provider, as one client for all replicas. */
export function createRegistration(options: RegistrationOptions) {
  const { config, store, sealer, now = Date.now } = options
  const { dcrConfig } = config
  const fetch = providerFetch(dcrConfig.registrationEndpoint ?? dcrConfig.discoveryUrl ?? '', config, options.directory)
  const name = deriveName(options)
  let known: { readonly client: Promise<RegisteredClient>; until: number } | undefined

  async function stored(): Promise<RegisteredClient | undefined> {
    const sealed = await store.get('upstreamClient', name)
    const text = sealed === undefined ? undefined : sealer.open(sealed, name)
    const client = text === undefined ? undefined : (JSON.parse(text) as RegisteredClient)
    return client !== undefined && lasts(client, now() / 1000) ? client : undefined
  }

  async function find(): Promise<RegisteredClient> {
    for (let waited = 0; waited <= LOCK_S * 1000; waited += LOOK_AGAIN_MS) {
      const client = await stored()
      if (client !== undefined) {
        if (client.endsAt === undefined) await store.extend('upstreamClient', name, UNUSED_S)
        return client
      }
      if (await store.add('registering', name, '1', LOCK_S)) return registered()
      await delay(LOOK_AGAIN_MS)
    }
    throw new Error('another replica did not register a client in time')
  }

  async function registered(): Promise<RegisteredClient> {
    try {
      const client = await register(options, fetch, now)
      const ttlS = client.endsAt === undefined ? UNUSED_S : Math.max(1, Math.floor(client.endsAt - now() / 1000))
      await store.set('upstreamClient', name, sealer.seal(JSON.stringify(client), name), ttlS)
      return client
    } catch (error) {
      throw toFault(error, 'registration')
    } finally {
      await store.delete('registering', name)
    }
  }

  return {
    /** Returns the client, and registers one if none is stored. Rejects with an Error for the log. */
    client(): Promise<RegisteredClient> {
      if (known !== undefined && known.until > now()) return known.client
      const found = { client: find(), until: now() + KNOWN_MS }
      known = found
      found.client.catch(() => {
        found.until = now() + PAUSE_MS
      })
      return found.client
    },
    close: () => fetch.close(),
  }
}

/** Returns the name of the record. Equal registrations share a record. */
const deriveName = ({ config, redirectUri }: RegistrationOptions): string => {
  const { tokenEndpoint, scopes = [], dcrConfig } = config
  const { discoveryUrl, registrationEndpoint, softwareId, softwareStatement } = dcrConfig
  const parts = [tokenEndpoint, redirectUri, scopes, discoveryUrl, registrationEndpoint, softwareId, softwareStatement]
  return hash('sha256', JSON.stringify(parts.map((part) => part ?? null)), 'base64url')
}

function lasts({ registeredAt, endsAt }: RegisteredClient, nowS: number): boolean {
  return endsAt === undefined || endsAt - nowS > Math.min(EARLY_S, (endsAt - registeredAt) / 10)
}

async function register(
  { config, directory, redirectUri }: RegistrationOptions,
  fetch: GuardedFetch,
  now: () => number,
): Promise<RegisteredClient> {
  const { dcrConfig, scopes = [] } = config
  const { softwareId, softwareStatement, initialAccessTokenFile } = dcrConfig
  const { endpoint, method } = await findEndpoint(dcrConfig, config.insecureAllowHTTP === true, fetch)
  const metadata = {
    client_name: 'Portico',
    redirect_uris: [redirectUri],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: method,
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
    ...(softwareId !== undefined && { software_id: softwareId }),
    ...(softwareStatement !== undefined && { software_statement: softwareStatement }),
  }
  const token = initialAccessTokenFile && secretFile(resolve(directory, initialAccessTokenFile))()
  const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) }
  const { status, text } = await fetch(endpoint, headers, JSON.stringify(metadata))
  if (!isSuccess(status)) {
    const secrets = [token, softwareStatement].filter((one) => one !== undefined)
    throw statusFault('registration', new ProviderResponse(text, status, {}, { secrets }))
  }
  return clientIn(
    objectIn(text, 'the provider answered with something other than a JSON object'),
    method,
    Math.floor(now() / 1000),
  )
}

/** Returns the provider's registration endpoint, and a method by which clients may authenticate. */
async function findEndpoint(
  { registrationEndpoint, discoveryUrl = '' }: DcrConfig,
  mayBePlain: boolean,
  fetch: GuardedFetch,
): Promise<{ readonly endpoint: string; readonly method: AuthMethod }> {
  if (registrationEndpoint !== undefined) return { endpoint: registrationEndpoint, method: METHODS[0] }
  const { status, text } = await fetch(discoveryUrl).catch((error: unknown) => {
    throw toFault(error, 'metadata')
  })
  if (!isSuccess(status)) throw statusFault('metadata', new ProviderResponse(text, status, {}, { secrets: [] }))
  const document = objectIn(text, 'the provider answered with something other than a JSON object')
  const { registration_endpoint: endpoint } = document
  const methods = document['token_endpoint_auth_methods_supported'] ?? [METHODS[0]]
  const url = typeof endpoint === 'string' ? URL.parse(endpoint) : null
  const isPlain = url?.protocol === 'http:' && (mayBePlain || isLoopback(url)) && discoveryUrl.startsWith('http:')
  if (url === null || (url.protocol !== 'https:' && !isPlain))
    throw new UnusableAnswer('the provider’s metadata has no usable registration_endpoint')
  const method = METHODS.find((one) => Array.isArray(methods) && methods.includes(one))
  if (method === undefined) throw new UnusableAnswer('the provider’s metadata has no usable authentication of clients')
  return { endpoint: url.href, method }
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300

const DIGITS = /^\d{1,15}$/

const isTime = (value: unknown): value is number => typeof value === 'number' && Number.isSafeInteger(value)

function clientIn(answer: Readonly<Record<string, unknown>>, asked: AuthMethod, nowS: number): RegisteredClient {
  const { client_id: id, client_secret: secret } = answer
  const endsAt = answer['client_secret_expires_at'] ?? 0
  const method = METHODS.find((one) => one === (answer['token_endpoint_auth_method'] ?? asked))
  const isComplete = method === 'none' || (typeof secret === 'string' && TEXT.test(secret))
  if (typeof id !== 'string' || !TEXT.test(id) || method === undefined || !isComplete)
    throw new UnusableAnswer('the provider has registered no usable client')
  const ends = typeof endsAt === 'string' && DIGITS.test(endsAt) ? Number(endsAt) : endsAt
  if (!isTime(ends) || !(ends === 0 || ends > nowS))
    throw new UnusableAnswer('the provider has registered a client that has ended')
  return {
    id,
    method,
    registeredAt: nowS,
    ...(method !== 'none' && { secret: secret as string }),
    ...(ends !== 0 && { endsAt: ends }),
  }
}
