import { readForm, requireClient } from './form.ts'
import type { Front, FrontContext } from './front.ts'
import { readIssued } from './issued-token.ts'
import { jsonAnswer, NO_STORE, OAuthError } from './oauth-error.ts'

/**
 * Revocation (RFC 7009). Any token of a login ends the login: its refresh tokens, its access tokens, which the gateway
 * refuses from then on, and what providers have given. A token by which somebody acts for a user ends alone. A text that
 * is no token is answered alike (section 2.2).
 */
export async function revoke(front: Front, c: FrontContext): Promise<Response> {
  const form = await readForm(c)
  const client = await requireClient(front, c, form)
  const issued = await readIssued(front, presented(form))
  if (issued !== undefined) {
    if (issued.clientId !== client.client_id)
      throw new OAuthError('invalid_grant', 'The token was issued to another client.')
    if (issued.grant !== undefined) await front.grants.end(issued.grant)
    else if (issued.jti !== undefined) await front.revocations.add(issued.jti, [issued.subject ?? ''])
  }
  c.var.record?.revoked(issued)
  return new Response(null, { status: 200, headers: NO_STORE })
}

/**
 * Introspection (RFC 7662): of any token for clients with a secret, of its own tokens for a public one, which proves
 * nothing but to hold them.
 */
export async function introspect(front: Front, c: FrontContext): Promise<Response> {
  const form = await readForm(c)
  const client = await requireClient(front, c, form)
  const issued = await readIssued(front, presented(form))
  const mayAsk = client.token_endpoint_auth_method !== 'none' || issued?.clientId === client.client_id
  const claims = mayAsk ? issued?.claims : undefined
  c.var.record?.introspected(claims)
  return jsonAnswer(claims === undefined ? { active: false } : { active: true, ...claims })
}

function presented(form: ReadonlyMap<string, string>): string {
  const token = form.get('token')
  if (token === undefined) throw new OAuthError('invalid_request', 'token is missing.')
  return token
}
