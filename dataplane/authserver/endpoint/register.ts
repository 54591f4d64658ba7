import { readBody } from '../../server/body.ts'
import { RegistrationRefused } from '../clients/registration.ts'
import { BODY_BYTES } from './form.ts'
import type { Front, FrontContext } from './front.ts'
import { jsonAnswer, OAuthError } from './oauth-error.ts'

/** Client registration (RFC 7591), open to everybody, in bounds. */
export async function register(front: Front, c: FrontContext): Promise<Response> {
  if (!front.registrations.take(front.addressOf(c.env.incoming)))
    throw new OAuthError('temporarily_unavailable', 'Too many registrations.', 429, { 'Retry-After': '1' })
  const type = c.req.header('content-type')?.split(';')[0]?.trim().toLowerCase()
  if (type !== 'application/json') throw new OAuthError('invalid_client_metadata', 'The body must be application/json.')
  const body = await readBody(c, BODY_BYTES)
  try {
    return jsonAnswer(await front.clients.register(parse(body)), 201)
  } catch (error) {
    if (error instanceof RegistrationRefused) throw new OAuthError(error.code, error.message)
    throw error
  }
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    throw new OAuthError('invalid_client_metadata', 'The body is not valid JSON.')
  }
}
