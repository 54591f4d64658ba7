import type * as client from 'openid-client'
import { isObject } from '../../crds/settings/json.ts'
import { isLoopback } from '../../dataplane/config/check/url.ts'
import { createGuardedFetch } from '../../dataplane/net/guarded-fetch.ts'
import { PublicError } from '../../dataplane/server/errors.ts'
import { readJson } from '../places/read-json.ts'

/** The workload for which a viewer wants to log in. */
export interface Asked {
  /** The URL of the workload's metadata (RFC 9728), at the address that the console uses for calls. */
  readonly metadataUrl: string
  /** The issuers that the workload's configuration names. */
  readonly issuers: readonly string[]
}

/** A workload's protected resource metadata (RFC 9728), as far as it is used. */
interface Resource {
  readonly resource: string
  readonly issuer: string
  readonly scopes: readonly string[]
}

export const refused = (message: string, cause?: unknown): PublicError =>
  new PublicError('forbidden', { message, ...(cause === undefined ? {} : { cause }) })

/**
 * Returns the addresses that are allowed for an issuer's endpoints. Loopback is allowed only if the issuer is on
 * loopback.
 */
export const allowedReach = (issuer: string) => ({ allowPrivateIP: true, allowLoopback: isLoopback(new URL(issuer)) })

const isSameIssuer = (one: string, other: string): boolean => one.replace(/\/$/, '') === other.replace(/\/$/, '')

/** Reads the resource's metadata and checks it against the workload's configuration. Throws a PublicError. */
export async function readResource({ metadataUrl, issuers }: Asked): Promise<Resource> {
  let found: unknown
  try {
    found = await readJson(metadataUrl)
  } catch (error) {
    throw refused('The workload has no metadata that tells where to log in.', error)
  }
  const { resource, authorization_servers: servers, scopes_supported: scopes } = isObject(found) ? found : {}
  const issuer = (Array.isArray(servers) ? servers : []).find(
    (server): server is string => typeof server === 'string' && issuers.some((known) => isSameIssuer(known, server)),
  )
  if (typeof resource !== 'string' || issuer === undefined)
    throw refused('The workload names no authorization server that its configuration names. Paste a token instead.')
  const listed = (Array.isArray(scopes) ? scopes : []).filter((scope): scope is string => typeof scope === 'string')
  return { resource, issuer, scopes: listed.slice(0, 100) }
}

/** Returns the possible URLs of an issuer's metadata (RFC 8414 section 3.1, OpenID Connect Discovery section 4.1). */
function metadataUrls(issuer: string): readonly string[] {
  const { origin, pathname } = new URL(issuer)
  const path = pathname.replace(/\/$/, '')
  return [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ]
}

/**
 * Reads an issuer's metadata. Its endpoints must be https, or http on loopback if the issuer is on loopback. Throws a
 * PublicError.
 */
export async function readServer(issuer: string): Promise<client.ServerMetadata> {
  const isLocal = isLoopback(new URL(issuer))
  const isSafe = (endpoint: unknown) => {
    const url = typeof endpoint === 'string' ? URL.parse(endpoint) : null
    return url?.protocol === 'https:' || (isLocal && url?.protocol === 'http:' && isLoopback(url))
  }
  const ask = createGuardedFetch(allowedReach(issuer))
  try {
    for (const url of metadataUrls(issuer)) {
      const answer = await ask(url)
      if (answer.status !== 200) continue
      const found: unknown = JSON.parse(answer.text)
      if (!isObject(found) || typeof found['issuer'] !== 'string' || !isSameIssuer(found['issuer'], issuer)) continue
      const { authorization_endpoint, token_endpoint, registration_endpoint } = found
      if (![authorization_endpoint, token_endpoint, registration_endpoint ?? token_endpoint].every(isSafe))
        throw new Error('an endpoint is missing, or not https')
      return found as unknown as client.ServerMetadata
    }
    throw new Error('no metadata of this issuer')
  } catch (error) {
    throw refused(`The metadata of ${issuer} can’t be used. Paste a token instead.`, error)
  } finally {
    await ask.close()
  }
}
