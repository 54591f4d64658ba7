import type { DelegateClientConfig } from '../../config/auth-server.ts'
import { type ClientFiles, configuredFile, secretIn } from './configured-file.ts'
import { type ClientRecord, secretDigest } from './registration.ts'

/** The grant type of token exchange (RFC 8693 section 2.1). */
export const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'

/** A configured client that may exchange tokens. */
export interface DelegateClient {
  readonly clientId: string
  readonly audiences: readonly string[]
  readonly scopes: readonly string[]
}

/** The configured clients. They only exchange tokens: no user logs in for them. */
export class DelegateClients {
  readonly #clients: ReadonlyMap<string, DelegateClient & { readonly secret: () => string }>

  constructor(configs: readonly DelegateClientConfig[], files: ClientFiles) {
    this.#clients = new Map(
      configs.map((config) => [
        config.clientId,
        { ...config, secret: configuredFile(config.clientSecretFile, config.clientId, files, secretIn) },
      ]),
    )
  }

  get size(): number {
    return this.#clients.size
  }

  find(clientId: string): DelegateClient | undefined {
    return this.#clients.get(clientId)
  }

  /** Returns the record of a client. Throws a PublicError `unavailable` while its secret can't be read. */
  findRecord(clientId: string): ClientRecord | undefined {
    const client = this.#clients.get(clientId)
    if (client === undefined) return undefined
    return {
      client_id: clientId,
      client_id_issued_at: 0,
      redirect_uris: [],
      grant_types: [TOKEN_EXCHANGE],
      response_types: ['code'],
      token_endpoint_auth_method: 'client_secret_basic',
      application_type: 'web',
      scope: client.scopes.join(' '),
      client_secret: secretDigest(client.secret()),
    }
  }
}
