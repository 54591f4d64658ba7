import type { ReadSecretFile } from '../config/secret-file.ts'
import type { GuardedFetch } from '../net/guarded-fetch.ts'
import { type KeySet, keySetOf } from './key-set.ts'

/** The API server of a cluster, which issues the tokens of ServiceAccounts. File paths are absolute. */
export interface Cluster {
  readonly apiServer: string
  readonly tokenFile: string
  readonly caFile?: string | undefined
}

interface ClusterKeys {
  readonly issuer: string
  /** Undefined where it publishes none. */
  readonly keys: KeySet | undefined
}

interface ClusterIssuer {
  readonly cluster: Cluster
  /** Absent: the one that the API server names. */
  readonly issuer?: string | undefined
  /** At the API server; absent: `/openid/v1/jwks`. */
  readonly jwksUrl?: string | undefined
}

/** An API server answers 406 to a request for keys that accepts plain JSON only (RFC 7517 section 8.5.2). */
export const KEYS_ACCEPTED = 'application/jwk-set+json, application/json'

/** An issuer is a URL (OpenID Connect Discovery); a longer text counts as none. */
const LONGEST_ISSUER = 2048

/**
 * Reads issuer and keys from the API server itself, with its token. `jwks_uri` of its discovery document is not
 * followed: it may name any address. Of several issuers the document names the first, which signs new tokens
 * (https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#service-account-issuer-discovery).
 * Throws an Error for the log.
 */
export async function readClusterKeys(
  { cluster, issuer, jwksUrl }: ClusterIssuer,
  fetch: GuardedFetch,
  readToken: ReadSecretFile,
): Promise<ClusterKeys> {
  const { origin } = new URL(cluster.apiServer)
  async function read(url: string, accept = 'application/json'): Promise<unknown> {
    if (new URL(url).origin !== origin) throw new Error(`${url} is not at the API server ${origin}`)
    const answer = await fetch(url, { accept, authorization: `Bearer ${readToken()}` })
    if (answer.status !== 200) throw new Error(`${url} answered ${answer.status}`)
    return JSON.parse(answer.text)
  }
  const named = issuer ?? issuerOf(await read(`${origin}/.well-known/openid-configuration`))
  const found = await read(jwksUrl ?? `${origin}/openid/v1/jwks`, KEYS_ACCEPTED)
  return { issuer: named, keys: keySetOf(found) }
}

function issuerOf(document: unknown): string {
  const { issuer } = (document ?? {}) as { issuer?: unknown }
  if (typeof issuer !== 'string' || issuer === '' || issuer.length > LONGEST_ISSUER)
    throw new Error('the discovery document of the API server names no issuer')
  return issuer
}
