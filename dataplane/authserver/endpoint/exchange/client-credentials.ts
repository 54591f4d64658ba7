import { clientSubject, type MachineClient } from '../../clients/machine-clients.ts'
import { jsonAnswer } from '../oauth-error.ts'
import type { EndpointParts } from '../parts.ts'
import { audienceFor, issue, scopesFor } from './issue.ts'

/** The longest lifetime of a machine's access token, in seconds. The machine can request the next one by itself. */
const LONGEST_S = 60 * 60

/**
 * Issues an access token to a client that acts for itself (RFC 6749 section 4.4), for one of its resources and within
 * its scopes. There is no refresh token (section 4.4.3). Throws an OAuthError `invalid_target` or `invalid_scope`.
 */
export async function issueToMachine(
  parts: EndpointParts,
  { clientId, allowedResources, scopes: allowed, groups }: MachineClient,
  form: ReadonlyMap<string, string>,
): Promise<Response> {
  const audience = audienceFor([form.get('resource')], allowedResources, parts.settings)
  const asked = form.get('scope')
  const scopes = allowed.length === 0 && asked === undefined ? [] : scopesFor(asked, allowed)
  const lifespanS = Math.min(LONGEST_S, parts.settings.accessTokenS)
  const subject = clientSubject(clientId)
  return jsonAnswer({
    access_token: await issue(parts, { subject, audience, clientId, scopes, lifespanS, groups }),
    token_type: 'Bearer',
    expires_in: lifespanS,
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
  })
}
