import { hash } from 'node:crypto'
import type { Clients } from '../clients/clients.ts'
import type { ClientRecord } from '../clients/registration.ts'
import type { KeyedHash } from '../keys/keyed-hash.ts'
import { firstRecord, type HeldBy, type RecordStore } from '../store/record-store.ts'
import type { Grants } from './grants.ts'
import { InvalidGrant, type LibraryAdapter, type Payload } from './library.ts'
import type { RefreshTokens } from './refresh-tokens.ts'

interface AdapterOptions {
  readonly store: RecordStore
  readonly keyed: KeyedHash
  readonly clients: Clients
  readonly grants: Grants
  readonly refresh: RefreshTokens
  /** Returns the thumbprint of the key that the client of the current request has proven to have. */
  proofKey(): string | undefined
}

/** Returns the storage adapter for each of the library's models. An unknown model is an error. */
export function adapters(options: AdapterOptions): (model: string) => LibraryAdapter {
  const made: Readonly<Record<string, LibraryAdapter>> = {
    Client: clientAdapter(options),
    Session: kept('Session', {
      // The library keeps no login session: each authorization request logs in at the providers.
      upsert: nothing,
      find: nothing,
      destroy: nothing,
    }),
    Interaction: secretAdapter('Interaction', 'interaction', options),
    AuthorizationCode: codeAdapter(options),
    RefreshToken: refreshAdapter(options),
    Grant: grantAdapter(options),
    // Access tokens are JWTs and are not stored.
    AccessToken: kept('AccessToken', { revokeByGrantId: nothing, find: nothing }),
  }
  return (model) => made[model] ?? kept(model, {})
}

const nothing = async () => undefined

/** Returns an adapter that rejects every operation except the given ones. */
function kept(model: string, operations: Partial<LibraryAdapter>): LibraryAdapter {
  const refuse = (operation: string) => async () => {
    throw new Error(`${operation} of ${model} is not supported`)
  }
  return {
    upsert: refuse('upsert'),
    find: refuse('find'),
    findByUid: nothing,
    findByUserCode: nothing,
    consume: refuse('consume'),
    destroy: refuse('destroy'),
    revokeByGrantId: refuse('revokeByGrantId'),
    ...operations,
  }
}

const clientAdapter = ({ clients }: AdapterOptions) =>
  kept('Client', {
    async find(id) {
      const client = await clients.find(id)
      return client && libraryClient(client)
    },
  })

/** Converts a client for the library. A client with a key has authenticated before the library is called. */
function libraryClient(record: ClientRecord): Payload {
  const { jwks, jwks_uri: _, token_endpoint_auth_signing_alg: __, isKeyOptional, ...client } = record
  const isByKey = client.token_endpoint_auth_method === 'private_key_jwt'
  return isByKey ? { ...client, token_endpoint_auth_method: 'none' } : { ...client }
}

/**
 * Returns an adapter for records that a request finds by a secret. The names of the records are digests of the secret.
 */
function secretAdapter(
  model: string,
  kind: 'interaction' | 'code',
  { store, keyed }: Pick<AdapterOptions, 'store' | 'keyed'>,
) {
  return kept(model, {
    upsert(id, payload, expiresIn) {
      const text = JSON.stringify({ ...payload, jti: undefined })
      return store.set(kind, keyed.of(kind, id), text, { ttlS: seconds(expiresIn), by: findHolder(payload) })
    },
    async find(id) {
      const found = await firstRecord<Payload>(keyed.all(kind, id), (name) => store.get(kind, name))
      return found && { ...found, jti: id }
    },
    async destroy(id) {
      for (const name of keyed.all(kind, id)) await store.delete(kind, name)
    },
  })
}

const findHolder = (payload: Payload | undefined): HeldBy | undefined =>
  typeof payload?.['grantId'] === 'string' ? { grant: payload['grantId'] } : undefined

/**
 * Returns the adapter for codes. A code is used once. A second use ends the grant that the code was exchanged for (RFC
 * 6749 section 4.1.2).
 */
function codeAdapter(options: AdapterOptions): LibraryAdapter {
  const { store, grants, proofKey } = options
  const codes = secretAdapter('AuthorizationCode', 'code', options)
  // The mark depends on the code alone, so that a rotated secret allows no second use.
  const deriveMark = (id: string) => hash('sha256', `used-code\0${id}`, 'base64url')
  return {
    ...codes,
    revokeByGrantId: nothing,
    async find(id) {
      const found = await codes.find(id)
      const { dpopJkt, ...payload } = found ?? {}
      if (found === undefined) return undefined
      // A code that is bound to a key is accepted with a proof of that key only (RFC 9449 section 10).
      if (dpopJkt !== undefined && dpopJkt !== proofKey()) throw new InvalidGrant('the code is bound to another key')
      if ((await store.get('usedCode', deriveMark(id))) === undefined) return payload
      return { ...payload, consumed: Math.floor(Date.now() / 1000) }
    },
    async consume(id) {
      const payload = await codes.find(id)
      const left = Number(payload?.['exp'] ?? 0) - Math.floor(Date.now() / 1000)
      const term = { ttlS: seconds(left + CLOCK_S), by: findHolder(payload) }
      if (await store.add('usedCode', deriveMark(id), '1', term)) return
      if (typeof payload?.['grantId'] === 'string') await grants.end(payload['grantId'])
      throw new InvalidGrant('authorization code already consumed')
    },
  }
}

/** Returns the adapter for refresh tokens. One write replaces a token with the next, so a crash loses nothing. */
const refreshAdapter = ({ refresh, grants, clients, proofKey }: AdapterOptions) =>
  kept('RefreshToken', {
    async upsert(id, payload, expiresIn) {
      const jkt = proofKey()
      const isBound = jkt !== undefined && (await isPublic(clients, payload))
      await refresh.keep(id, payload, seconds(expiresIn), isBound ? jkt : undefined)
      await grants.renew(refresh.readGrantId(id) as string, String(payload['accountId']))
    },
    // The token endpoint has checked that the client has the token's key.
    find: (id) => refresh.find(id),
    consume: nothing,
    destroy: nothing,
    revokeByGrantId: (grantId) => refresh.forget(grantId),
  })

/**
 * Tells whether a token's client need not authenticate. Its refresh tokens are bound to its key instead (RFC 9449
 * section 5).
 */
async function isPublic(clients: Clients, { clientId }: Payload): Promise<boolean> {
  const client = await clients.find(String(clientId))
  return client === undefined || client.token_endpoint_auth_method === 'none' || client.isKeyOptional === true
}

/** Returns the adapter for grants. The store renews a grant with each rotation of its refresh token. */
const grantAdapter = ({ grants }: AdapterOptions) =>
  kept('Grant', {
    upsert: (id, payload) => grants.keep(id, { ...payload, exp: undefined, jti: undefined }),
    async find(id) {
      const payload = await grants.find(id)
      return payload && { ...payload, jti: id }
    },
    destroy: (id) => grants.end(id),
  })

/** The clock skew that is tolerated. */
const CLOCK_S = 30

/** Returns whole seconds, at least one, as stores require. */
const seconds = (value: number | undefined): number => Math.max(1, Math.ceil(value ?? 0))
