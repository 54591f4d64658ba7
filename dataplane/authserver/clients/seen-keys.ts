import { hash } from 'node:crypto'
import { calculateJwkThumbprint } from 'jose'
import { networkHolder } from '../../server/network-of.ts'
import type { RecordStore } from '../store/record-store.ts'
import { findDocumentUrl } from './client-documents.ts'
import type { ClientKeys, PublicJwk } from './client-keys.ts'
import type { ClientRecord } from './registration.ts'

/** The time for which the keys of a client are remembered after their last use, in seconds. */
const REMEMBERED_S = 30 * 24 * 60 * 60
/** The stored length of a thumbprint: 66 bits tell the keys of one client apart. */
const STORED = 11

/** The numbers of a client's keys that are new, are gone, and are the same as before. */
export interface KeyChange {
  readonly added: number
  readonly removed: number
  readonly kept: number
}

interface SeenKeysOptions {
  readonly keys: Pick<ClientKeys, 'known'>
  readonly store: RecordStore
}

/**
 * Detects that a client authenticates with changed keys, for the audit log. The store holds the known keys for all
 * replicas.
 */
export class SeenKeys {
  readonly #options: SeenKeysOptions
  readonly #noted = new WeakSet<object>()

  constructor(options: SeenKeysOptions) {
    this.#options = options
  }

  /**
   * Compares the keys of a client that has just authenticated with the stored ones. Returns the change; undefined if
   * there is none or the client is new. `address`: the source address of the request.
   */
  async findChange(client: ClientRecord, address: string | undefined): Promise<KeyChange | undefined> {
    const keys = mayChange(client) ? this.#options.keys.known(client) : undefined
    if (keys === undefined || this.#noted.has(keys)) return undefined
    const { store } = this.#options
    const name = hash('sha256', JSON.stringify(['client-keys', client.client_id]), 'base64url')
    const now = await computeThumbprints(keys)
    const text = await store.get('clientKeys', name)
    await store.set('clientKeys', name, now.join(' '), { ttlS: REMEMBERED_S, by: networkHolder(address) })
    this.#noted.add(keys)
    if (text === undefined) return undefined
    const before = text.split(' ')
    const kept = now.filter((one) => before.includes(one)).length
    const change = { added: now.length - kept, removed: before.length - kept, kept }
    return change.added + change.removed === 0 ? undefined : change
  }
}

/** Tells whether the keys of a client can change. Keys that are part of a registration can't. */
const mayChange = ({ client_id: id, client_id_issued_at: at, jwks_uri: url }: ClientRecord): boolean =>
  url !== undefined || findDocumentUrl(id) !== undefined || at === 0

async function computeThumbprints(keys: readonly PublicJwk[]): Promise<readonly string[]> {
  const all = await Promise.all(keys.map(async (key) => (await calculateJwkThumbprint(key)).slice(0, STORED)))
  return [...new Set(all)]
}
