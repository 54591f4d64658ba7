import { readBody } from '../../server/body.ts'
import { CLIENT_ASSERTION, subjectOf } from '../clients/client-assertion.ts'
import { authenticateClient, type ClientCredentials } from '../clients/clients.ts'
import type { ClientRecord } from '../clients/registration.ts'
import type { Front, FrontContext } from './front.ts'
import { OAuthError } from './oauth-error.ts'

/** Largest body of any endpoint. */
const BODY_BYTES = 64 * 1024

/** The body of a request. Until it is answered it counts in the share of its sender, who may send it byte by byte. */
export const readCounted = (c: FrontContext): Promise<Buffer> =>
  readBody(c, BODY_BYTES, (bytes) => c.var.held.demand(bytes))

/** What the body of a request is, without parameters and in lower case. */
export const mediaType = (c: FrontContext): string | undefined =>
  c.req.header('content-type')?.split(';')[0]?.trim().toLowerCase()

/** The form of a request, each parameter once (RFC 6749 section 3.2). An empty parameter counts as absent. */
export async function readForm(c: FrontContext): Promise<Map<string, string>> {
  if (mediaType(c) !== 'application/x-www-form-urlencoded')
    throw new OAuthError('invalid_request', 'The body must be a form (application/x-www-form-urlencoded).')
  return singleParameters(new URLSearchParams((await readCounted(c)).toString('utf8')))
}

/** Parameters by name. Throws an OAuthError where one comes twice. */
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
 * The client that sends a request, authenticated as it was registered (RFC 6749 section 2.3). Throws an OAuthError
 * `invalid_client`, or `invalid_request` where it identifies itself in two ways.
 */
export async function requireClient(
  front: Front,
  c: FrontContext,
  form: ReadonlyMap<string, string>,
): Promise<ClientRecord> {
  const authorization = c.req.header('authorization')
  const credentials = authorization === undefined ? inForm(form) : inHeader(authorization, form)
  c.var.record?.client(credentials?.id)
  const address = front.addressOf(c.env.incoming)
  const client = credentials && (await authenticateClient(front, credentials, address))
  if (client === undefined) {
    const challenge = { 'WWW-Authenticate': `Basic realm="${front.settings.issuer}"` }
    throw new OAuthError('invalid_client', 'The client is not known, or its credentials are wrong.', 401, challenge)
  }
  return client
}

function inForm(form: ReadonlyMap<string, string>): ClientCredentials | undefined {
  const id = form.get('client_id')
  const secret = form.get('client_secret')
  const assertion = assertionIn(form)
  if (assertion === undefined) return id === undefined ? undefined : { id, secret }
  if (secret !== undefined) throw identifiedTwice()
  // The assertion says whose it is (RFC 7523 section 3); `client_id` is then left out by some.
  const named = subjectOf(assertion)
  return named === undefined || (id !== undefined && id !== named) ? undefined : { id: named, assertion }
}

/** The JWT by which a client authenticates. Throws an OAuthError `invalid_request` for an assertion of another kind. */
function assertionIn(form: ReadonlyMap<string, string>): string | undefined {
  const assertion = form.get('client_assertion')
  const type = form.get('client_assertion_type')
  if (assertion === undefined && type === undefined) return undefined
  if (assertion !== undefined && type === CLIENT_ASSERTION) return assertion
  throw new OAuthError('invalid_request', `client_assertion goes with the client_assertion_type ${CLIENT_ASSERTION}.`)
}

const identifiedTwice = () => new OAuthError('invalid_request', 'The client must identify itself in one way.')

/** HTTP Basic, both parts form-encoded (RFC 6749 section 2.3.1). */
function inHeader(authorization: string, form: ReadonlyMap<string, string>): ClientCredentials | undefined {
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
