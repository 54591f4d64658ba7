import { readBody } from '../../server/body.ts'
import { CLIENT_ASSERTION } from '../clients/client-assertion.ts'
import { authenticateClient, type ClientCredentials } from '../clients/clients.ts'
import { readJwt } from '../clients/presented-jwt.ts'
import type { ClientRecord } from '../clients/registration.ts'
import { isSpiffeId, SPIFFE_ASSERTION } from '../clients/spiffe-clients.ts'
import { OAuthError } from './oauth-error.ts'
import type { EndpointContext, EndpointParts } from './parts.ts'

/** The parameters of a form, by name. */
export type Form = ReadonlyMap<string, string>

/** The largest body of any endpoint, in bytes. */
const BODY_BYTES = 64 * 1024

/** Reads a request's body. Its bytes count in the sender's memory share until the answer, even if it arrives slowly. */
export const readCounted = (c: EndpointContext): Promise<Buffer> =>
  readBody(c, BODY_BYTES, (bytes) => c.var.held.demand(bytes))

/** Returns the media type of the body in lower case, without parameters. */
export const mediaType = (c: EndpointContext): string | undefined =>
  c.req.header('content-type')?.split(';')[0]?.trim().toLowerCase()

/** Reads the form of a request, each parameter once (RFC 6749 section 3.2). An empty parameter counts as absent. */
export async function readForm(c: EndpointContext): Promise<Map<string, string>> {
  if (mediaType(c) !== 'application/x-www-form-urlencoded')
    throw new OAuthError('invalid_request', 'The body must be a form (application/x-www-form-urlencoded).')
  return singleParameters(new URLSearchParams((await readCounted(c)).toString('utf8')))
}

/** Reads the form of a page of this server. Its pages send no form that is malformed or too large: it counts as empty. */
export const readPageForm = (c: EndpointContext): Promise<Form> => readForm(c).catch(() => new Map<string, string>())

/** Returns parameters by name. Throws an OAuthError if one occurs twice. */
export function singleParameters(parameters: URLSearchParams): Map<string, string> {
  const found = new Map<string, string>()
  for (const [name, value] of parameters) {
    if (found.has(name)) throw new OAuthError('invalid_request', 'A parameter must not be given twice.')
    found.set(name, value)
  }
  for (const [name, value] of found) if (value === '') found.delete(name)
  return found
}

/**
 * Authenticates the client that sends a request, with the method it registered (RFC 6749 section 2.3). Throws an
 * OAuthError `invalid_client`, or `invalid_request` if the client identifies itself in two ways.
 */
export async function requireClient(parts: EndpointParts, c: EndpointContext, form: Form): Promise<ClientRecord> {
  const authorization = c.req.header('authorization')
  const credentials = authorization === undefined ? inForm(form) : inHeader(authorization, form)
  c.var.record?.client(credentials?.id)
  const address = parts.addressOf(c.env.incoming)
  const client = credentials && (await authenticateClient(parts, credentials, address))
  if (client === undefined) {
    const challenge = { 'WWW-Authenticate': `Basic realm="${parts.settings.issuer}"` }
    throw new OAuthError('invalid_client', 'The client is not known, or its credentials are wrong.', 401, challenge)
  }
  await tellOfKeys(parts, c, client, address)
  return client
}

/** Notes in the audit log, if there is one, that a client has authenticated with changed keys. */
async function tellOfKeys(
  { seenKeys, log }: EndpointParts,
  { var: { record } }: EndpointContext,
  client: ClientRecord,
  address: string | undefined,
): Promise<void> {
  if (record === undefined || client.token_endpoint_auth_method !== 'private_key_jwt') return
  try {
    const change = await seenKeys.findChange(client, address)
    if (change !== undefined) record.keysChanged(client.client_id, change)
  } catch (error) {
    // A failing store is no reason to refuse a client, because this is only for the audit log.
    log().warn({ err: error, client: client.client_id }, 'a change of keys can’t be audited')
  }
}

function inForm(form: Form): ClientCredentials | undefined {
  const id = form.get('client_id')
  const secret = form.get('client_secret')
  const assertion = assertionIn(form)
  if (assertion === undefined) return id === undefined ? undefined : { id, secret }
  if (secret !== undefined) throw identifiedTwice()
  // The assertion names the client (RFC 7523 section 3), so some clients omit `client_id`.
  const presented = readJwt(assertion)
  const named = presented?.claims.sub
  if (presented === undefined || typeof named !== 'string') return undefined
  if (isSpiffeId(named)) return { id: id ?? named, svid: presented }
  if (form.get('client_assertion_type') === SPIFFE_ASSERTION) return undefined
  return id !== undefined && id !== named ? undefined : { id: named, assertion: presented }
}

/** Returns the JWT that authenticates the client. Throws an OAuthError `invalid_request` for another kind. */
function assertionIn(form: Form): string | undefined {
  const assertion = form.get('client_assertion')
  const type = form.get('client_assertion_type')
  if (assertion === undefined && type === undefined) return undefined
  if (assertion !== undefined && (type === CLIENT_ASSERTION || type === SPIFFE_ASSERTION)) return assertion
  throw new OAuthError('invalid_request', `client_assertion goes with the client_assertion_type ${CLIENT_ASSERTION}.`)
}

const identifiedTwice = () => new OAuthError('invalid_request', 'The client must identify itself in one way.')

/** Reads HTTP Basic credentials. Both parts are form-encoded (RFC 6749 section 2.3.1). */
function inHeader(authorization: string, form: Form): ClientCredentials | undefined {
  const encoded = /^basic +([\w+/-]+={0,2})$/i.exec(authorization)?.[1]
  if (encoded === undefined) return undefined
  const [id, ...rest] = Buffer.from(encoded, 'base64').toString('utf8').split(':')
  const decode = (text: string) => new URLSearchParams(`x=${text.replaceAll('&', '%26')}`).get('x') ?? ''
  const credentials = { id: decode(id ?? ''), secret: decode(rest.join(':')) }
  const named = form.get('client_id')
  if (form.has('client_secret') || form.has('client_assertion') || (named !== undefined && named !== credentials.id))
    throw identifiedTwice()
  return credentials
}
