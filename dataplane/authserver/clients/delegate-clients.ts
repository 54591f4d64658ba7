import { resolve } from 'node:path'
import type { Logger } from 'pino'
import type { DelegateClientConfig } from '../../config/auth-server.ts'
import { type ReadSecretFile, secretFile } from '../../config/secret-file.ts'
import { PublicError } from '../../server/errors.ts'
import { type ClientRecord, secretDigest } from './registration.ts'

/** Token exchange (RFC 8693 section 2.1). */
export const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'

/** A configured client that may exchange tokens. */
export interface DelegateClient {
  readonly clientId: string
  readonly audiences: readonly string[]
  readonly scopes: readonly string[]
}

/** The configured clients. They only exchange tokens: no user logs in for them. */
export class DelegateClients {
  readonly #clients: ReadonlyMap<string, DelegateClient & { readonly readSecret: ReadSecretFile }>
  readonly #log: () => Logger
  #said = false

  constructor(configs: readonly DelegateClientConfig[], directory: string, log: () => Logger) {
    this.#log = log
    this.#clients = new Map(
      configs.map((config) => [
        config.clientId,
        { ...config, readSecret: secretFile(resolve(directory, config.clientSecretFile)) },
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
  recordOf(clientId: string): ClientRecord | undefined {
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
      client_secret: secretDigest(this.#secretOf(client)),
    }
  }

  #secretOf({ clientId, readSecret }: DelegateClient & { readonly readSecret: ReadSecretFile }): string {
    try {
      const secret = readSecret()
      if (secret === '') throw new Error('the file is empty')
      this.#said = false
      return secret
    } catch (cause) {
      if (!this.#said) this.#log().error({ err: cause, client: clientId }, 'the secret of a client can’t be read')
      this.#said = true
      throw new PublicError('unavailable', { headers: { 'Retry-After': '1' }, cause })
    }
  }
}
