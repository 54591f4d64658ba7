import { LRUCache } from 'lru-cache'
import * as client from 'openid-client'
import { isObject } from '../../crds/settings/json.ts'
import { isLoopback } from '../../dataplane/config/check/url.ts'
import { createGuardedFetch } from '../../dataplane/net/guarded-fetch.ts'
import { PublicError } from '../../dataplane/server/errors.ts'
import { readJson } from '../places/read-json.ts'
import { oauthFetch } from '../session/oidc.ts'
import { BySession } from './tokens.ts'

/** The workload for which a viewer wants to log in. */
export interface LoginTarget {
  /** The URL of the workload's metadata (RFC 9728), at the address that the console uses for calls. */
  readonly metadataUrl: string
  /** The issuers that the workload's configuration names. */
  readonly issuers: readonly string[]
}

/** A viewer's request to log in for a workload. Only `values` come from a browser. */
export interface LoginRequest extends LoginTarget {
  readonly session: string
  /** The key of the workload under which the token will be stored. */
  readonly workload: string
  /** The origin of the console's pages. */
  readonly origin: string
  /** The path of the page to return to. */
  readonly back: string
  /** The input that the viewer has entered there. */
  readonly values: Readonly<Record<string, string>>
}

interface PendingLogin {
  readonly request: LoginRequest
  readonly server: client.Configuration
  readonly verifier: string
  readonly resource: string
  readonly redirect: string
}

const LOGIN_MS = 600_000
const SERVER_MS = 30_000
/** The most sessions with logins in progress, and the most logins in progress of one session. */
const MOST_SESSIONS = 200
const MOST = 5

/**
 * Returns the scopes to request. If a resource names none, that is `openid` at an OpenID Connect provider, which would
 * otherwise grant nothing.
 */
function chooseScope(
  scopes: readonly string[],
  { scopes_supported: known }: client.ServerMetadata,
): { scope?: string } {
  const isOpenId = Array.isArray(known) && known.includes('openid')
  const asked = scopes.length === 0 && isOpenId ? ['openid'] : scopes
  return asked.length === 0 ? {} : { scope: asked.join(' ') }
}

/** Returns the Client ID Metadata Document by which authorization servers identify the console. */
export const clientDocument = (origin: string) => ({
  client_id: `${origin}/client.json`,
  client_name: 'Portico console',
  client_uri: origin,
  redirect_uris: [`${origin}/client/callback`],
  grant_types: ['authorization_code'],
  response_types: ['code'],
  token_endpoint_auth_method: 'none',
})

/**
 * Logs viewers in at the authorization servers of workloads, as an MCP client does: with the resource's metadata, a
 * client by metadata document or registration, PKCE, and a token for the resource. Tokens stay in this process.
 */
export class WorkloadLogins {
  readonly #begun = new BySession<PendingLogin>({ sessions: MOST_SESSIONS, values: MOST, ttl: LOGIN_MS })
  /** Registered clients by authorization server. */
  readonly #registered = new LRUCache<string, string>({ max: 100, ttl: 24 * 3_600_000 })

  /** The metadata of issuers, for pages that describe them. */
  readonly #servers = new LRUCache<string, Promise<client.ServerMetadata>>({ max: 100, ttl: SERVER_MS })

  /** Returns the metadata of an issuer that a workload's configuration names, at most half a minute old. */
  about(issuer: string): Promise<client.ServerMetadata> {
    const known = this.#servers.get(issuer)
    if (known !== undefined) return known
    const asked = readServer(issuer)
    this.#servers.set(issuer, asked)
    asked.catch(() => this.#servers.delete(issuer))
    return asked
  }

  /** Returns the URL at which the browser logs in. Throws a PublicError with the reason if a login is impossible. */
  async begin(request: LoginRequest): Promise<string> {
    const { resource, issuer, scopes } = await readResource(request)
    const metadata = await readServer(issuer)
    const [state, verifier] = [client.randomState(), client.randomPKCECodeVerifier()]
    const redirect = `${request.origin}/client/callback`
    const id = await this.#clientAt(metadata, request.origin)
    const server = new client.Configuration(metadata, id, undefined, client.None())
    server[client.customFetch] = oauthFetch(allowedReach(issuer))
    if (issuer.startsWith('http:')) client.allowInsecureRequests(server)
    this.#begun.set(request.session, state, { request, server, verifier, resource, redirect })
    return client.buildAuthorizationUrl(server, {
      redirect_uri: redirect,
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state,
      resource,
      ...chooseScope(scopes, metadata),
    }).href
  }

  async #clientAt(metadata: client.ServerMetadata, origin: string): Promise<string> {
    const isLocal = isLoopback(new URL(metadata.issuer)) && isLoopback(new URL(origin))
    if (metadata['client_id_metadata_document_supported'] === true && (origin.startsWith('https:') || isLocal))
      return `${origin}/client.json`
    const { registration_endpoint: endpoint, issuer } = metadata
    if (endpoint === undefined)
      throw createRefusal(`${issuer} takes clients neither by document nor by registration. Paste a token instead.`)
    const key = `${endpoint} ${origin}`
    const known = this.#registered.get(key)
    if (known !== undefined) return known
    const { client_id: _, ...asked } = clientDocument(origin)
    const ask = createGuardedFetch(allowedReach(issuer))
    try {
      const answer = await ask(endpoint, { 'content-type': 'application/json' }, JSON.stringify(asked))
      const found: unknown = JSON.parse(answer.text)
      const id = isObject(found) ? found['client_id'] : undefined
      if (typeof id !== 'string') throw new Error(`HTTP ${answer.status}`)
      this.#registered.set(key, id)
      return id
    } catch (error) {
      throw createRefusal(`${issuer} does not register the console. Paste a token instead.`, error)
    } finally {
      await ask.close()
    }
  }

  /**
   * Exchanges the code for a token. `search`: the query with which the browser returned. `endsAt`: milliseconds since
   * 1970. Throws a PublicError.
   */
  async finish(search: string, session: string) {
    const state = new URLSearchParams(search).get('state') ?? ''
    const begun = this.#begun.get(session, state)
    if (begun === undefined)
      throw createRefusal('This login was begun in another session, or took too long. Begin it again.')
    this.#begun.delete(session, state)
    const { request, server, verifier, resource, redirect } = begun
    try {
      const answer = await client.authorizationCodeGrant(
        server,
        new URL(`${redirect}${search}`),
        { expectedState: state, pkceCodeVerifier: verifier },
        { resource },
      )
      const { access_token: token, expires_in: seconds } = answer
      const endsAt = seconds === undefined ? undefined : Date.now() + seconds * 1000
      return { workload: request.workload, back: request.back, values: request.values, token, endsAt }
    } catch (error) {
      const { error: code } = error as { error?: unknown }
      const said = typeof code === 'string' ? `It says: ${code.slice(0, 200)}.` : 'Its answer is invalid.'
      throw createRefusal(`The login at ${server.serverMetadata().issuer} failed. ${said}`, error)
    }
  }
}

const createRefusal = (message: string, cause?: unknown): PublicError =>
  new PublicError('forbidden', { message, ...(cause === undefined ? {} : { cause }) })

/**
 * Returns the addresses that are allowed for an issuer's endpoints. Loopback is allowed only if the issuer is on
 * loopback.
 */
const allowedReach = (issuer: string) => ({ allowPrivateIP: true, allowLoopback: isLoopback(new URL(issuer)) })

const isSameIssuer = (one: string, other: string): boolean => one.replace(/\/$/, '') === other.replace(/\/$/, '')

/**
 * Reads a workload's protected resource metadata (RFC 9728) and checks it against the workload's configuration. Throws a
 * PublicError.
 */
export async function readResource({ metadataUrl, issuers }: LoginTarget) {
  let found: unknown
  try {
    found = await readJson(metadataUrl)
  } catch (error) {
    throw createRefusal('The workload has no metadata that tells where to log in.', error)
  }
  const { resource, authorization_servers: servers, scopes_supported: scopes } = isObject(found) ? found : {}
  const issuer = (Array.isArray(servers) ? servers : []).find(
    (server): server is string => typeof server === 'string' && issuers.some((known) => isSameIssuer(known, server)),
  )
  if (typeof resource !== 'string' || issuer === undefined)
    throw createRefusal(
      'The workload names no authorization server that its configuration names. Paste a token instead.',
    )
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
async function readServer(issuer: string): Promise<client.ServerMetadata> {
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
    throw createRefusal(`The metadata of ${issuer} can’t be used. Paste a token instead.`, error)
  } finally {
    await ask.close()
  }
}
