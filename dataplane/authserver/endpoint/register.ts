import { RegistrationRefused } from '../clients/registration.ts'
import { mediaType, readCounted } from './form.ts'
import { jsonAnswer, OAuthError } from './oauth-error.ts'
import type { EndpointContext, EndpointParts } from './parts.ts'

/** The number of bytes after which a registration counts as one more: 2 kB of its body. */
const LARGE_BYTES = 2048

/** Registers a client (RFC 7591). Registration is open to everybody, within limits. */
export async function register(parts: EndpointParts, c: EndpointContext): Promise<Response> {
  if (mediaType(c) !== 'application/json')
    throw new OAuthError('invalid_client_metadata', 'The body must be application/json.')
  const body = await readCounted(c)
  const address = parts.addressOf(c.env.incoming)
  if (!parts.registrations.take(address, 1 + Math.floor(body.length / LARGE_BYTES)))
    throw new OAuthError('temporarily_unavailable', 'Too many registrations.', 429, { 'Retry-After': '1' })
  try {
    return jsonAnswer(await parts.clients.register(parse(body), address), 201)
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
