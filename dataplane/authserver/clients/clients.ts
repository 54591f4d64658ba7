import { hash, randomBytes } from 'node:crypto'
import { isEqual } from '../keys/keyed-hash.ts'
import type { RecordStore } from '../store/record-store.ts'
import { type ClientRecord, type RegistrationRules, readRegistration } from './registration.ts'

/** A client that is not used for so long is forgotten. */
const CLIENT_TTL_S = 30 * 24 * 60 * 60
/** The form of the ids that are given out; what has another one is not looked up. */
const CLIENT_ID = /^[\w-]{22}$/

/** The clients that have registered themselves. */
export interface Clients {
  find(id: string): Promise<ClientRecord | undefined>
  /** Registers a client; gives what it is told, its secret included. Throws a RegistrationRefused. */
  register(document: unknown): Promise<ClientRecord>
  /** It has been used: it is remembered for another 30 days. */
  renew(id: string): Promise<void>
}

export function createClients(store: RecordStore, rules: RegistrationRules): Clients {
  return {
    async find(id) {
      const text = CLIENT_ID.test(id) ? await store.get('client', id) : undefined
      return text === undefined ? undefined : (JSON.parse(text) as ClientRecord)
    },
    async register(document) {
      const record: ClientRecord = {
        client_id: randomBytes(16).toString('base64url'),
        client_id_issued_at: Math.floor(Date.now() / 1000),
        ...readRegistration(document, rules),
      }
      const secret = record.token_endpoint_auth_method === 'none' ? undefined : randomBytes(32).toString('base64url')
      const withSecret = (value: string): ClientRecord => ({
        ...record,
        client_secret: value,
        client_secret_expires_at: 0,
      })
      const kept = secret === undefined ? record : withSecret(secretDigest(secret))
      await store.set('client', record.client_id, JSON.stringify(kept), CLIENT_TTL_S)
      return secret === undefined ? record : withSecret(secret)
    },
    renew: (id) => store.extend('client', id, CLIENT_TTL_S),
  }
}

/** What is kept of a secret. It has 256 random bits, so a plain hash keeps it as well as a slow one would. */
export const secretDigest = (secret: string): string => hash('sha256', secret, 'base64url')

/** How a client has identified itself to an endpoint. */
export interface ClientCredentials {
  readonly id: string
  readonly secret?: string | undefined
}

/** The client with these credentials; undefined where there is none, or they are wrong. */
export async function authenticateClient(
  clients: Clients,
  { id, secret }: ClientCredentials,
): Promise<ClientRecord | undefined> {
  const client = await clients.find(id)
  if (client === undefined) return undefined
  // A public client that sends a secret is tolerated: some do, and it proves nothing either way.
  if (client.token_endpoint_auth_method === 'none') return client
  return secret !== undefined && isEqual(secretDigest(secret), client.client_secret ?? '') ? client : undefined
}
