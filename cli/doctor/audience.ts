import { error, type Finding, note, ok } from './finding.ts'
import type { Subject } from './subject.ts'

/** The settings with which a provider's tokens carry an audience, by the host of its issuer. */
const HINTS: readonly (readonly [host: RegExp, hint: string])[] = [
  [
    /^accounts\.google\.com$/,
    'Google’s access tokens are opaque and can’t be introspected: callers send ID tokens, whose audience is their client id',
  ],
  [
    /^login\.microsoftonline\.com$|\.ciamlogin\.com$/,
    'Entra ID: the audience of v2.0 tokens is the application id of the API (set accessTokenAcceptedVersion to 2)',
  ],
  [/^sts\.windows\.net$/, 'Entra ID, v1.0 tokens: the audience is the application id URI (api://…) of the API'],
  [
    /\.okta(preview)?\.com$|\.oktapreview\.com$/,
    'Okta: use a custom authorization server (…/oauth2/NAME) and its audience; tokens of the org server are for Okta alone',
  ],
  [/\.auth0\.com$/, 'Auth0: make an API with this identifier; without an `audience` parameter tokens are opaque'],
]
const KEYCLOAK = /\/realms\/[^/]+$/

function hintFor(issuer: string): string | undefined {
  const url = URL.parse(issuer)
  if (url === null) return undefined
  if (KEYCLOAK.test(url.pathname))
    return 'Keycloak: add a client scope with an audience mapper for it, or the tokens are for `account`'
  return HINTS.find(([host]) => host.test(url.hostname))?.[1]
}

/** Reports the audience that tokens must carry, and the settings with which this provider writes it. */
export function audienceFindings({ use, audiences, issuer, where }: Subject): readonly Finding[] {
  if (use === 'login') return []
  const hint = hintFor(issuer)
  const hints = hint === undefined ? [] : [note('audience', hint)]
  if (audiences.length > 0)
    return [
      ok('audience', `${use === 'assertions' ? 'assertions' : 'tokens'} must be for ${audiences.join(' or ')}`),
      ...hints,
    ]
  if (where === ISSUER_OPTION) return [note('audience', 'none is named (--audience)'), ...hints]
  const fix = 'set incomingAuth.audience where a VirtualMCPServer refers to it'
  return [error('audience', 'no workload in these files names an audience', fix), ...hints]
}

export const ISSUER_OPTION = '--issuer'
