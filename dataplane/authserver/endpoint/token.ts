import { setTimeout as wait } from 'node:timers/promises'
import { decodeJwt } from 'jose'
import { ProofError } from '../../identity/index.ts'
import { createSealer, loginOf } from '../../upstream-tokens/index.ts'
import { CLIENT_CREDENTIALS, clientSubject, type MachineClient, TOKEN_EXCHANGE } from '../clients/configured-clients.ts'
import type { ClientRecord } from '../clients/registration.ts'
import type { InnerResponse } from '../provider/library.ts'
import { GRACE_MS } from '../provider/refresh-tokens.ts'
import { JWT_BEARER } from '../provider/trusted-issuers.ts'
import type { HeldBy } from '../store/record-store.ts'
import { redeemAssertion } from './exchange/assertion.ts'
import { audienceFor, issue, scopesFor } from './exchange/issue.ts'
import { exchangeToken } from './exchange/token-exchange.ts'
import { type Form, readForm, requireClient } from './form.ts'
import { jsonAnswer, OAuthError } from './oauth-error.ts'
import type { EndpointContext, EndpointParts } from './parts.ts'
import { linkByToken } from './telemetry.ts'

const GRANT_TYPES: ReadonlySet<string> = new Set(['authorization_code', 'refresh_token', TOKEN_EXCHANGE, JWT_BEARER])

/** Grant types that begin with a login. A server without providers does not offer them. */
const OF_LOGINS: ReadonlySet<string> = new Set(['authorization_code', 'refresh_token'])

/**
 * Tells whether this server offers a grant type. Those of logins need a provider, and `client_credentials` needs a
 * client.
 */
function isServed(grantType: string, { settings, machines }: EndpointParts): boolean {
  if (OF_LOGINS.has(grantType)) return settings.primaries.length > 0
  return grantType === CLIENT_CREDENTIALS ? machines.size > 0 : GRANT_TYPES.has(grantType)
}

/** Serves the token endpoint (RFC 6749 section 3.2). */
export async function token(parts: EndpointParts, c: EndpointContext): Promise<Response> {
  const response = await boundAnswer(parts, c, await tokenAnswer(parts, c))
  await linkByToken(parts, c, response)
  return response
}

/** Reads the request's proof of possession, if any. Every token in the answer is bound to the proof's key. */
async function readProof({ proofs, addressOf }: EndpointParts, c: EndpointContext): Promise<void> {
  try {
    c.var.request.proofKey = await proofs?.verify(c.env.incoming, addressOf(c.env.incoming))
  } catch (error) {
    if (!(error instanceof ProofError)) throw error
    const code = error.code === 'use_dpop_nonce' ? error.code : 'invalid_dpop_proof'
    throw new OAuthError(code, error.message, 400, nonceHeader(proofs))
  }
}

const nonceHeader = (proofs: EndpointParts['proofs']): Readonly<Record<string, string>> =>
  proofs?.nonce === undefined ? {} : { 'DPoP-Nonce': proofs.nonce }

/**
 * Completes a successful answer with the type of a bound token (RFC 9449 section 5) and the nonce for the next request.
 */
async function boundAnswer({ proofs }: EndpointParts, c: EndpointContext, answer: Response): Promise<Response> {
  if (c.var.request.proofKey === undefined || answer.status !== 200) return answer
  const document = (await answer.json()) as object
  return jsonAnswer({ ...document, token_type: 'DPoP' }, 200, nonceHeader(proofs))
}

async function tokenAnswer(parts: EndpointParts, c: EndpointContext): Promise<Response> {
  const form = await readForm(c)
  const grantType = form.get('grant_type')
  if (grantType === undefined) throw new OAuthError('invalid_request', 'grant_type is missing.')
  if (!isServed(grantType, parts)) throw new OAuthError('unsupported_grant_type', 'This grant_type is not supported.')
  const { record } = c.var
  record?.granting(grantType)
  c.set('grantType', grantType)
  await readProof(parts, c)
  if (grantType === JWT_BEARER) return redeemAssertion(parts, await namedClient(parts, c, form), form, record)
  const client = await requireClient(parts, c, form)
  const delegate = parts.delegates.find(client.client_id)
  const machine = parts.machines.find(client.client_id)
  const isMisused =
    (grantType === TOKEN_EXCHANGE) !== (delegate !== undefined) ||
    (grantType === CLIENT_CREDENTIALS) !== (machine !== undefined)
  if (isMisused) throw new OAuthError('unauthorized_client', 'The client may not use this grant_type.')
  if (machine !== undefined) return issueToMachine(parts, machine, form)
  if (delegate !== undefined) return exchangeToken(parts, delegate, form, record)
  if (grantType === 'refresh_token') await record?.presented(form.get('refresh_token') ?? '', client.client_id)
  const response =
    grantType === 'refresh_token' ? await refresh(parts, client, form) : toAnswer(await send(parts, client, form))
  if (response.status === 200) await parts.clients.renew(client.client_id, await grantIn(response))
  return response
}

async function grantIn(answer: Response): Promise<HeldBy | undefined> {
  const { access_token: token } = (await answer.clone().json()) as { readonly access_token: string }
  const grant = loginOf(decodeJwt(token))
  return grant === undefined ? undefined : { grant }
}

/** Authenticates the client of a request that needs none. Returns undefined if the request names no client. */
async function namedClient(parts: EndpointParts, c: EndpointContext, form: Form): Promise<ClientRecord | undefined> {
  const isNamed =
    c.req.header('authorization') !== undefined ||
    ['client_id', 'client_secret', 'client_assertion'].some((name) => form.has(name))
  return isNamed ? requireClient(parts, c, form) : undefined
}

async function refresh(parts: EndpointParts, client: ClientRecord, form: Form): Promise<Response> {
  const presented = form.get('refresh_token')
  if (presented === undefined) throw new OAuthError('invalid_request', 'refresh_token is missing.')
  await requireKey(parts, presented)
  let refused: InnerResponse | undefined
  const body = await exchangeOnce(parts, { token: presented, clientId: client.client_id }, async () => {
    const inner = await send(parts, client, form)
    if (inner.status === 200) return inner.body
    refused = inner
    return undefined
  })
  return toAnswer(refused ?? { status: 200, body: body as string })
}

/** Throws an OAuthError `invalid_grant` if a refresh token is bound to a key that the client has not proven to have. */
async function requireKey(parts: EndpointParts, token: string): Promise<void> {
  const jkt = await parts.provider().refresh.findKey(token)
  if (jkt !== undefined && jkt !== parts.underWay.proofKey())
    throw new OAuthError('invalid_grant', TEXTS['invalid_grant'] as string)
}

/** Passes the request to the library, with the client that was authenticated here. */
function send(parts: EndpointParts, client: ClientRecord, form: Form): Promise<InnerResponse> {
  const parameters = new URLSearchParams([...form])
  parameters.set('client_id', client.client_id)
  for (const name of ['client_assertion', 'client_assertion_type']) parameters.delete(name)
  const resource = form.get('resource')
  if (resource !== undefined) parameters.set('resource', parts.settings.resourceNamed(resource))
  const secret = client.client_secret
  if (secret === undefined) parameters.delete('client_secret')
  // The library stores the digest as the secret, so it gets the digest to compare.
  else parameters.set('client_secret', secret)
  return parts.provider().send({ method: 'POST', path: '/oauth/token', body: parameters.toString() })
}

/** Converts the library's answer. An error keeps its code and gets a fixed text. */
function toAnswer({ status, body }: Pick<InnerResponse, 'status' | 'body'>): Response {
  const document = JSON.parse(body) as { error?: string; error_description?: string }
  if (document.error === undefined) return jsonAnswer(document, status)
  return jsonAnswer(
    { error: document.error, error_description: TEXTS[document.error] ?? 'The request is not valid.' },
    status,
  )
}

const TEXTS: Readonly<Record<string, string>> = {
  invalid_grant: 'The code or refresh token is not valid, has expired, or was issued for another request.',
  invalid_scope: 'The scope is wider than what was granted.',
  invalid_target: 'The resource is not one that was granted.',
  server_error: 'Something went wrong here.',
}

/** The lease of an exchange, in seconds. After it the exchange counts as failed and another request may try. */
const EXCHANGE_S = 5
const LOOK_MS = 50
const LONGEST_WAIT_MS = 4_000

/**
 * Exchanges a refresh token once, however often it is sent at the same time or within ten seconds. A client that lost
 * the answer, and processes that share one token, get the same answer. `exchange` returns the body of the answer, or
 * undefined if the exchange was refused; it runs at one replica at a time. Throws an OAuthError `invalid_grant` if the
 * answer is bound to a different key than the request's.
 * The stored answer is sealed with a key that is derived from the token, so the record is useless without the token.
 */
async function exchangeOnce(
  parts: EndpointParts,
  { token, clientId }: { readonly token: string; readonly clientId: string },
  exchange: () => Promise<string | undefined>,
): Promise<string | undefined> {
  const { store } = parts
  const { keyed, refresh } = parts.provider()
  const name = keyed.of('rotated', token)
  const sealer = createSealer(() => [keyed.of('sealed-answer', token)], 'rotated')
  // An answer that is sealed for one token, client and key can't be opened for another.
  const bound = [name, clientId, parts.underWay.proofKey() ?? []].flat().join(' ')

  const grantId = refresh.readGrantId(token)
  const grant = grantId === undefined ? undefined : await parts.grants.find(grantId)
  // The token belongs to no live grant of this client, so the library refuses it.
  if (grantId === undefined || grant?.['clientId'] !== clientId) return exchange()
  const answered = async () => {
    const text = await store.get('rotated', name)
    // An answer is not returned again once its grant has ended.
    if (text === undefined || (await parts.grants.find(grantId)) === undefined) return undefined
    const answer = sealer.open(text, bound)
    // The token was exchanged for tokens with a different key or none. The login continues with those.
    if (answer === undefined) throw new OAuthError('invalid_grant', TEXTS['invalid_grant'] as string)
    return answer
  }
  for (let waited = 0; waited <= LONGEST_WAIT_MS; waited += LOOK_MS) {
    const known = await answered()
    if (known !== undefined) return known
    if (await store.add('rotating', name, '1', { ttlS: EXCHANGE_S, by: { grant: grantId } })) {
      const answer = await exchange()
      if (answer === undefined) await store.delete('rotating', name)
      else {
        const term = { ttlS: GRACE_MS / 1000, by: { grant: grantId } }
        await store.set('rotated', name, sealer.seal(answer, bound), term)
      }
      return answer
    }
    await wait(LOOK_MS)
  }
  throw new OAuthError('temporarily_unavailable', 'The token is being exchanged; try again.', 503, {
    'Retry-After': '1',
  })
}

/** The longest lifetime of a machine's access token, in seconds. The machine can request the next one by itself. */
const LONGEST_S = 60 * 60

/**
 * Issues an access token to a client that acts for itself (RFC 6749 section 4.4), for one of its resources and within
 * its scopes. There is no refresh token (section 4.4.3). Throws an OAuthError `invalid_target` or `invalid_scope`.
 */
async function issueToMachine(
  parts: EndpointParts,
  { clientId, allowedResources, scopes: allowed, groups }: MachineClient,
  form: Form,
): Promise<Response> {
  const audience = audienceFor([form.get('resource')], allowedResources, parts.settings)
  const asked = form.get('scope')
  const scopes = allowed.length === 0 && asked === undefined ? [] : scopesFor(asked, allowed)
  const lifespanS = Math.min(LONGEST_S, parts.settings.accessTokenS)
  const subject = clientSubject(clientId)
  return issue(parts, { subject, audience, clientId, scopes, lifespanS, groups })
}
