import { setTimeout as wait } from 'node:timers/promises'
import { decodeJwt } from 'jose'
import { createSealer, loginOf } from '../../upstream-tokens/index.ts'
import { TOKEN_EXCHANGE } from '../clients/delegate-clients.ts'
import type { ClientRecord } from '../clients/registration.ts'
import type { InnerResponse } from '../provider/bridge.ts'
import { GRACE_MS } from '../provider/refresh-tokens.ts'
import { JWT_BEARER } from '../provider/trusted-issuers.ts'
import type { HeldBy } from '../store/record-store.ts'
import { redeemAssertion } from './exchange/assertion.ts'
import { exchangeToken } from './exchange/token-exchange.ts'
import { readForm, requireClient } from './form.ts'
import type { Front, FrontContext } from './front.ts'
import { jsonAnswer, OAuthError } from './oauth-error.ts'
import { linkByToken } from './telemetry.ts'

const GRANT_TYPES: ReadonlySet<string> = new Set(['authorization_code', 'refresh_token', TOKEN_EXCHANGE, JWT_BEARER])

/** The token endpoint (RFC 6749 section 3.2). */
export async function token(front: Front, c: FrontContext): Promise<Response> {
  const response = await tokenAnswer(front, c)
  await linkByToken(front, c, response)
  return response
}

async function tokenAnswer(front: Front, c: FrontContext): Promise<Response> {
  const form = await readForm(c)
  const grantType = form.get('grant_type')
  if (grantType === undefined) throw new OAuthError('invalid_request', 'grant_type is missing.')
  if (!GRANT_TYPES.has(grantType)) throw new OAuthError('unsupported_grant_type', 'This grant_type is not supported.')
  const { record } = c.var
  record?.granting(grantType)
  c.set('grantType', grantType)
  if (grantType === JWT_BEARER) return redeemAssertion(front, await namedClient(front, c, form), form, record)
  const client = await requireClient(front, c, form)
  const delegate = front.delegates.find(client.client_id)
  if ((grantType === TOKEN_EXCHANGE) !== (delegate !== undefined))
    throw new OAuthError('unauthorized_client', 'The client may not use this grant_type.')
  if (delegate !== undefined) return exchangeToken(front, delegate, form, record)
  if (grantType === 'refresh_token') await record?.presented(form.get('refresh_token') ?? '', client.client_id)
  const response = await (grantType === 'refresh_token' ? refresh(front, client, form) : exchange(front, client, form))
  if (response.status === 200) await front.clients.renew(client.client_id, await grantIn(response))
  return response
}

/** The grant that an answer comes from. */
async function grantIn(answer: Response): Promise<HeldBy | undefined> {
  const { access_token: token } = (await answer.clone().json()) as { readonly access_token: string }
  const grant = loginOf(decodeJwt(token))
  return grant === undefined ? undefined : { grant }
}

/** The client of a request that may come without one; who names one proves to be it. */
async function namedClient(
  front: Front,
  c: FrontContext,
  form: ReadonlyMap<string, string>,
): Promise<ClientRecord | undefined> {
  const isNamed =
    c.req.header('authorization') !== undefined ||
    ['client_id', 'client_secret', 'client_assertion'].some((name) => form.has(name))
  return isNamed ? requireClient(front, c, form) : undefined
}

async function exchange(front: Front, client: ClientRecord, form: ReadonlyMap<string, string>): Promise<Response> {
  return answerOf(await send(front, client, form))
}

async function refresh(front: Front, client: ClientRecord, form: ReadonlyMap<string, string>): Promise<Response> {
  const presented = form.get('refresh_token')
  if (presented === undefined) throw new OAuthError('invalid_request', 'refresh_token is missing.')
  let refused: InnerResponse | undefined
  const body = await exchangeOnce(front, { token: presented, clientId: client.client_id }, async () => {
    const inner = await send(front, client, form)
    if (inner.status === 200) return inner.body
    refused = inner
    return undefined
  })
  return answerOf(refused ?? { status: 200, body: body as string })
}

/** Hands the request to the library, with the client as it was authenticated here. */
function send(front: Front, client: ClientRecord, form: ReadonlyMap<string, string>): Promise<InnerResponse> {
  const parameters = new URLSearchParams([...form])
  parameters.set('client_id', client.client_id)
  for (const name of ['client_assertion', 'client_assertion_type']) parameters.delete(name)
  const resource = form.get('resource')
  if (resource !== undefined) parameters.set('resource', front.settings.resourceNamed(resource))
  const secret = client.client_secret
  if (secret === undefined) parameters.delete('client_secret')
  // The library has the digest for the secret, so the digest is what it compares.
  else parameters.set('client_secret', secret)
  return front.provider().send({ method: 'POST', path: '/oauth/token', body: parameters.toString() })
}

/** The library's answer. Its errors are told by their code and a fixed text. */
function answerOf({ status, body }: Pick<InnerResponse, 'status' | 'body'>): Response {
  const document = JSON.parse(body) as { error?: string; error_description?: string }
  if (document.error === undefined) return jsonAnswer(document, status)
  return jsonAnswer(
    { error: document.error, error_description: TEXTS[document.error] ?? 'The request is not valid.' },
    status,
  )
}

const TEXTS: Readonly<Record<string, string>> = {
  invalid_grant: 'The code or refresh token is not valid, has ended, or was issued for another request.',
  invalid_scope: 'The scope is wider than what was granted.',
  invalid_target: 'The resource is not one that was granted.',
  server_error: 'Something went wrong here.',
}

/** An exchange that takes longer has failed; the next one may try. */
const EXCHANGE_S = 5
const LOOK_MS = 50
const LONGEST_WAIT_MS = 4_000

/**
 * Exchanges a refresh token once, however often it is sent at the same time or within ten seconds: a client whose answer
 * was lost, or whose processes share one token, gets the same answer. `exchange` gives the body of the answer, undefined
 * where the exchange was refused; it runs at one replica at a time.
 *
 * The answer is kept sealed by a key that only the token itself gives: what is stored is of no use without it.
 */
async function exchangeOnce(
  front: Front,
  { token, clientId }: { readonly token: string; readonly clientId: string },
  exchange: () => Promise<string | undefined>,
): Promise<string | undefined> {
  const { store } = front
  const { keyed, refresh } = front.provider()
  const name = keyed.of('rotated', token)
  const sealer = createSealer(() => [keyed.of('sealed-answer', token)], 'rotated')
  // What was sealed for one token and client opens for no other.
  const bound = `${name} ${clientId}`

  const grantId = refresh.grantOf(token)
  const grant = grantId === undefined ? undefined : await front.grants.find(grantId)
  // Nothing that could be exchanged: it is refused at once.
  if (grantId === undefined || grant?.['clientId'] !== clientId) return exchange()
  const answered = async () => {
    const text = await store.get('rotated', name)
    // What has ended since then is not given out again.
    return text === undefined || (await front.grants.find(grantId)) === undefined ? undefined : sealer.open(text, bound)
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
