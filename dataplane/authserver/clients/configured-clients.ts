import { resolve } from 'node:path'
import type { Logger } from 'pino'
import type { DelegateClientConfig, MachineClientConfig, SpiffeClientConfig } from '../../config/auth-server.ts'
import { secretFile } from '../../config/secret-file.ts'
import { CLIENT_SUBJECT } from '../../identity/index.ts'
import { PublicError } from '../../server/errors.ts'
import { keysIn, type PublicJwk } from './client-keys.ts'
import { type ClientRecord, secretDigest } from './registration.ts'

/** The grant type of token exchange (RFC 8693 section 2.1). */
export const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'

/** A configured client that may exchange tokens. */
export type DelegateClient = Pick<DelegateClientConfig, 'clientId' | 'audiences' | 'scopes'>

/** The configured clients. They only exchange tokens: no user logs in for them. */
export class DelegateClients {
  readonly #clients: ReadonlyMap<string, DelegateClient & { readonly secret: () => string }>

  constructor(configs: readonly DelegateClientConfig[], files: ClientFiles) {
    this.#clients = new Map(
      configs.map((config) => [
        config.clientId,
        { ...config, secret: configuredFile(config.clientSecretFile, config.clientId, files, readSecret) },
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
    return (
      client && {
        ...recordFor(client, TOKEN_EXCHANGE),
        token_endpoint_auth_method: 'client_secret_basic',
        client_secret: secretDigest(client.secret()),
      }
    )
  }
}

/** The grant type with which a client gets a token for itself (RFC 6749 section 4.4). */
export const CLIENT_CREDENTIALS = 'client_credentials'

export type MachineClient = Required<Pick<MachineClientConfig, 'clientId' | 'allowedResources' | 'scopes' | 'groups'>>

/**
 * Returns the subject of a client in its own tokens. It can't equal a user's subject: a login gives a UUID, and
 * subjects of other issuers begin with the issuer's URL (RFC 9700 section 4.15).
 */
export const clientSubject = (clientId: string): string => `${CLIENT_SUBJECT}${clientId}`

type Authentication = Pick<ClientRecord, 'token_endpoint_auth_method' | 'client_secret' | 'jwks' | 'jwks_uri'>

interface ConfiguredMachine extends MachineClient {
  readonly by: 'secret' | 'key' | 'svid'
  /** Absent for a workload that authenticates with an SVID. */
  readonly authentication?: () => Authentication
}

/** The configured clients that act for themselves. No user logs in for them. */
export class MachineClients {
  readonly #clients: ReadonlyMap<string, ConfiguredMachine>

  constructor(configs: readonly MachineClientConfig[], workloads: readonly SpiffeClientConfig[], files: ClientFiles) {
    this.#clients = new Map([
      ...workloads.map(({ clientId, resources = [], audiences = [], scopes = [] }): [string, ConfiguredMachine] => [
        clientId,
        { clientId, allowedResources: [...resources, ...audiences], scopes, groups: [], by: 'svid' },
      ]),
      ...configs.map((config): [string, ConfiguredMachine] => {
        const { clientId, allowedResources, scopes = [], groups = [] } = config
        const by = config.clientSecretFile === undefined ? 'key' : 'secret'
        const authentication = openAuthentication(config, files)
        return [clientId, { clientId, allowedResources, scopes, groups, by, authentication }]
      }),
    ])
  }

  get size(): number {
    return this.#clients.size
  }

  /** Tells whether any of these clients authenticates in this way. */
  areSome(by: ConfiguredMachine['by']): boolean {
    return [...this.#clients.values()].some((client) => client.by === by)
  }

  find(clientId: string): MachineClient | undefined {
    return this.#clients.get(clientId)
  }

  /** Returns the record of a client. Throws a PublicError `unavailable` while its secret or keys can't be read. */
  findRecord(clientId: string): ClientRecord | undefined {
    const client = this.#clients.get(clientId)
    return client?.authentication && { ...recordFor(client, CLIENT_CREDENTIALS), ...client.authentication() }
  }

  /** Returns the record of a client that has authenticated with an SVID. It has no other credential. */
  findProvenRecord(clientId: string): ClientRecord | undefined {
    const client = this.#clients.get(clientId)
    return client?.by === 'svid'
      ? { ...recordFor(client, CLIENT_CREDENTIALS), token_endpoint_auth_method: 'private_key_jwt' as const }
      : undefined
  }

  /** Tells whether a token's claims name a client that is no longer configured. */
  isGone({ sub }: Readonly<Record<string, unknown>>): boolean {
    return (
      typeof sub === 'string' && sub.startsWith(CLIENT_SUBJECT) && !this.#clients.has(sub.slice(CLIENT_SUBJECT.length))
    )
  }
}

const recordFor = (
  { clientId, scopes }: Pick<MachineClient, 'clientId' | 'scopes'>,
  grantType: string,
): Omit<ClientRecord, 'token_endpoint_auth_method'> => ({
  client_id: clientId,
  client_id_issued_at: 0,
  redirect_uris: [],
  grant_types: [grantType],
  response_types: ['code'],
  application_type: 'web',
  scope: scopes.join(' '),
})

/** Returns the function that gives a client's authentication method and credentials. */
function openAuthentication(
  { clientId, clientSecretFile: secret, jwksFile, jwksUrl }: MachineClientConfig,
  files: ClientFiles,
): () => Authentication {
  if (secret !== undefined)
    return configuredFile(secret, clientId, files, (text) => ({
      token_endpoint_auth_method: 'client_secret_basic',
      client_secret: secretDigest(readSecret(text)),
    }))
  if (jwksFile !== undefined)
    return configuredFile(jwksFile, clientId, files, (text) => ({
      token_endpoint_auth_method: 'private_key_jwt',
      jwks: { keys: parseKeys(text) },
    }))
  return () => ({ token_endpoint_auth_method: 'private_key_jwt', ...(jwksUrl !== undefined && { jwks_uri: jwksUrl }) })
}

function parseKeys(text: string): readonly PublicJwk[] {
  const keys = keysIn(JSON.parse(text))
  if (keys === undefined) throw new Error('the file must hold a JWK set of 1 to 20 public keys')
  return keys
}

/** The folder of the files of configured clients, and the log of files that can't be read. */
export interface ClientFiles {
  readonly directory: string
  log(): Logger
}

/**
 * Follows the credential file of a configured client. Returns a function that gives the file's current value. `read`
 * converts the text and throws an Error for the log if it is unusable. While there is no usable value, the function
 * throws a PublicError `unavailable`; the log reports it once.
 */
export function configuredFile<T>(
  path: string,
  clientId: string,
  { directory, log }: ClientFiles,
  read: (text: string) => T,
): () => T {
  const readText = secretFile(resolve(directory, path))
  let known: { readonly text: string; readonly value: T } | undefined
  let isSaid = false
  return function fileOfClient() {
    try {
      const text = readText()
      if (known?.text !== text) known = { text, value: read(text) }
      isSaid = false
      return known.value
    } catch (cause) {
      if (!isSaid) log().error({ err: cause, client: clientId }, 'the secret or the keys of a client can’t be read')
      isSaid = true
      throw new PublicError('unavailable', { headers: { 'Retry-After': '1' }, cause })
    }
  }
}

/** Returns the secret in the text of a file. Throws an Error if the file is empty. */
function readSecret(text: string): string {
  if (text === '') throw new Error('the file is empty')
  return text
}
