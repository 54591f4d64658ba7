import { randomBytes } from 'node:crypto'
import { networkHolder } from '../../server/network-of.ts'
import { isEqual, randomSecret } from '../keys/keyed-hash.ts'
import type { HeldBy, RecordStore } from '../store/record-store.ts'
import type { ClientAssertions } from './client-assertion.ts'
import type { ClientDocuments } from './client-documents.ts'
import type { MachineClients } from './configured-clients.ts'
import type { PresentedJwt } from './presented-jwt.ts'
import { type ClientRecord, type RegistrationRules, readRegistration, secretDigest } from './registration.ts'
import type { SpiffeClients } from './spiffe-clients.ts'

/** The time after which an unused client is deleted. */
const CLIENT_TTL_S = 30 * 24 * 60 * 60
/** The form of issued client ids. An id of another form is not looked up. */
const CLIENT_ID = /^[\w-]{22}$/

/** The known clients: configured, with a metadata document, or registered. */
export type Clients = ReturnType<typeof createClients>

export interface ClientsOptions {
  readonly store: RecordStore
  readonly rules: RegistrationRules
  readonly configured: readonly { findRecord(clientId: string): ClientRecord | undefined }[]
  /** Absent if clients with a metadata document are not accepted. */
  readonly documents?: ClientDocuments | undefined
}

export function createClients({ store, rules, configured, documents }: ClientsOptions) {
  /** A client that is used for the first time between two lookups is found by the third. */
  const registered = async (id: string) =>
    (await store.get('client', id)) ?? (await store.get('newClient', id)) ?? (await store.get('client', id))

  return {
    /**
     * Finds a client. `address`: the source address of the request that names it. Rejects with a PublicError
     * `unavailable` if the lookup is not possible now.
     */
    async find(id: string, address?: string): Promise<ClientRecord | undefined> {
      for (const clients of configured) {
        const found = clients.findRecord(id)
        if (found !== undefined) return found
      }
      if (documents?.accepts(id)) return documents.find(id, address)
      const text = CLIENT_ID.test(id) ? await registered(id) : undefined
      if (text === undefined) return undefined
      const record = JSON.parse(text) as ClientRecord
      // A scope may no longer be configured, and the library would refuse the whole client.
      const known = record.scope.split(' ').filter((scope) => rules.scopes.includes(scope))
      return { ...record, scope: [...new Set([...known, ...(rules.toolScopes ?? [])])].join(' ') }
    },
    /**
     * Registers a client and returns its record with the secret. `address`: the source address of the request. Throws a
     * RegistrationRefused.
     */
    async register(document: unknown, address?: string): Promise<ClientRecord> {
      const record: ClientRecord = {
        client_id: randomBytes(16).toString('base64url'),
        client_id_issued_at: Math.floor(Date.now() / 1000),
        ...readRegistration(document, rules),
      }
      const hasSecret = record.token_endpoint_auth_method.startsWith('client_secret_')
      const secret = hasSecret ? randomSecret() : undefined
      const withSecret = (value: string): ClientRecord => ({
        ...record,
        client_secret: value,
        client_secret_expires_at: 0,
      })
      const kept = secret === undefined ? record : withSecret(secretDigest(secret))
      await store.addClient(record.client_id, JSON.stringify(kept), CLIENT_TTL_S, networkHolder(address))
      return secret === undefined ? record : withSecret(secret)
    },
    /** Marks a client as used: a registered one is kept for another 30 days. */
    async renew(id: string, by?: HeldBy): Promise<void> {
      if (CLIENT_ID.test(id)) await store.useClient(id, CLIENT_TTL_S, by)
    },
  }
}

export interface ClientCredentials {
  readonly id: string
  readonly secret?: string | undefined
  /** A JWT signed with the client's key (RFC 7523 section 2.2). */
  readonly assertion?: PresentedJwt | undefined
  /** A JWT-SVID of a workload of SPIFFE. */
  readonly svid?: PresentedJwt | undefined
}

interface Authenticating {
  readonly clients: Clients
  readonly assertions: ClientAssertions
  readonly spiffe: SpiffeClients
  readonly machines: MachineClients
}

/** Returns the client with these credentials, with the method that it used; undefined if they match no client. */
export async function authenticateClient(
  known: Authenticating,
  credentials: ClientCredentials,
  address: string | undefined,
): Promise<ClientRecord | undefined> {
  const { id, svid } = credentials
  if (svid === undefined) return authenticateByOwn(known, credentials, address)
  const proven = await known.spiffe.authenticate(svid, id, address)
  return proven === undefined ? undefined : known.machines.findProvenRecord(proven)
}

async function authenticateByOwn(
  { clients, assertions }: Authenticating,
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
  // A public client that sends a secret is tolerated: some do, and the secret proves nothing either way.
  if (method === 'none') return client
  return secret !== undefined && isEqual(secretDigest(secret), digest) ? client : undefined
}
