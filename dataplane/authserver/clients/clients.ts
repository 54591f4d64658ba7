import { randomBytes } from 'node:crypto'
import { networkHolder } from '../../server/network-of.ts'
import { isEqual, randomSecret } from '../keys/keyed-hash.ts'
import type { HeldBy, RecordStore } from '../store/record-store.ts'
import type { ClientAssertions } from './client-assertion.ts'
import type { ClientDocuments } from './client-documents.ts'
import type { DelegateClients } from './delegate-clients.ts'
import { type ClientRecord, type RegistrationRules, readRegistration, secretDigest } from './registration.ts'

/** A client that is not used for so long is forgotten. */
const CLIENT_TTL_S = 30 * 24 * 60 * 60
/** The form of the ids that are given out; what has another one is not looked up. */
const CLIENT_ID = /^[\w-]{22}$/

/** The clients that are known here: of the configuration, with a metadata document, and those that have registered. */
export interface Clients {
  /**
   * `address`: where the request comes from that names it. Rejects with a PublicError `unavailable` where it can't be
   * looked up now.
   */
  find(id: string, address?: string): Promise<ClientRecord | undefined>
  /**
   * Registers a client; gives what it is told, its secret included. `address`: where the request comes from. Throws a
   * RegistrationRefused.
   */
  register(document: unknown, address?: string): Promise<ClientRecord>
  /** It has been used by somebody: one that has registered is remembered for another 30 days. */
  renew(id: string, by?: HeldBy): Promise<void>
}

interface ClientsOptions {
  readonly store: RecordStore
  readonly rules: RegistrationRules
  readonly delegates: DelegateClients
  /** Absent: clients with a metadata document are not accepted. */
  readonly documents?: ClientDocuments | undefined
}

export function createClients({ store, rules, delegates, documents }: ClientsOptions): Clients {
  /** One that is used for the first time between two looks is found by the third. */
  const registered = async (id: string) =>
    (await store.get('client', id)) ?? (await store.get('newClient', id)) ?? (await store.get('client', id))

  return {
    async find(id, address) {
      const delegate = delegates.recordOf(id)
      if (delegate !== undefined) return delegate
      if (documents?.accepts(id)) return documents.find(id, address)
      const text = CLIENT_ID.test(id) ? await registered(id) : undefined
      if (text === undefined) return undefined
      const record = JSON.parse(text) as ClientRecord
      // A scope that is no longer configured: the library would refuse the whole client.
      const known = record.scope.split(' ').filter((scope) => rules.scopes.includes(scope))
      return { ...record, scope: known.join(' ') }
    },
    async register(document, address) {
      const record: ClientRecord = {
        client_id: randomBytes(16).toString('base64url'),
        client_id_issued_at: Math.floor(Date.now() / 1000),
        ...readRegistration(document, rules),
      }
      const secret = record.token_endpoint_auth_method === 'none' ? undefined : randomSecret()
      const withSecret = (value: string): ClientRecord => ({
        ...record,
        client_secret: value,
        client_secret_expires_at: 0,
      })
      const kept = secret === undefined ? record : withSecret(secretDigest(secret))
      await store.addClient(record.client_id, JSON.stringify(kept), CLIENT_TTL_S, networkHolder(address))
      return secret === undefined ? record : withSecret(secret)
    },
    async renew(id, by) {
      if (CLIENT_ID.test(id)) await store.useClient(id, CLIENT_TTL_S, by)
    },
  }
}

/** How a client has identified itself to an endpoint. */
export interface ClientCredentials {
  readonly id: string
  readonly secret?: string | undefined
  /** A JWT that it has signed by its key (RFC 7523 section 2.2). */
  readonly assertion?: string | undefined
}

/**
 * The client with these credentials; undefined where there is none, or they are wrong. Its method is the one by which it
 * has authenticated.
 */
export async function authenticateClient(
  { clients, assertions }: { readonly clients: Clients; readonly assertions: ClientAssertions },
  { id, secret, assertion }: ClientCredentials,
  address: string | undefined,
): Promise<ClientRecord | undefined> {
  const client = await clients.find(id, address)
  if (client === undefined) return undefined
  const { token_endpoint_auth_method: method, client_secret: digest = '', isKeyOptional } = client
  if (method === 'private_key_jwt') {
    if (assertion !== undefined) return (await assertions.isBy(client, assertion, address)) ? client : undefined
    return isKeyOptional ? { ...client, token_endpoint_auth_method: 'none' } : undefined
  }
  if (assertion !== undefined) return undefined
  // A public client that sends a secret is tolerated: some do, and it proves nothing either way.
  if (method === 'none') return client
  return secret !== undefined && isEqual(secretDigest(secret), digest) ? client : undefined
}
