/** What is wrong with the clients and issuers by which tokens are exchanged, before anything is served by them. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthServerConfig } from '../../../dataplane/config/auth-server.ts'
import { delegationFindings } from '../../../dataplane/config/check/authserver/delegation.ts'

type Parts = Partial<AuthServerConfig>
const client = { clientId: 'agent', clientSecretFile: 'a', audiences: ['x'], scopes: ['s'] }
const issuer = { issuerUrl: 'https://idp.example', allowedDelegateClients: ['agent'] }
const binding = { subject: 'ci', allowedResources: ['x'] }

function found(parts: Parts): string[] {
  const config = { issuer: 'https://gw.example', delegateClients: [client], upstreamProviders: [], ...parts }
  return delegationFindings(config, '').map(({ pointer, message }) => `${pointer} ${message}`)
}
const ofIssuer = (more: object) => found({ trustedIssuers: [{ ...issuer, ...more }] })

test('what is in order has no finding', () => {
  const jwtBearerGrant = { maxAssertionAge: '5m', subjectBindings: [binding] }
  const { allowedDelegateClients: _, ...other } = { ...issuer, issuerUrl: 'https://other.example' }
  const actors = { expectedAudience: 'x', actorClaim: 'azp', actorMatcher: 'claims.azp == "web"', allowMayAct: true }
  assert.equal(
    found({
      trustedIssuers: [
        { ...issuer, ...actors },
        { ...other, jwtBearerGrant },
      ],
    }),
    [],
  )
  assert.equal(found({ issuer: 'http://127.0.0.1:1', insecureAllowConfidentialOverLoopbackHTTP: true }), [])
  assert.equal(ofIssuer({ allowPrivateIPs: true, jwksUrl: 'https://10.0.0.1/keys' }), [])
})

for (const [name, findings, pattern] of [
  ['secrets in the clear', found({ issuer: 'http://127.0.0.1:1' }), /^\/delegateClients needs an https issuer/],
  [
    'secrets in the clear beyond loopback',
    found({ issuer: 'http://gw.example', insecureAllowConfidentialOverLoopbackHTTP: true, insecureAllowHTTP: true }),
    /^\/delegateClients needs an https issuer/,
  ],
  [
    'an id like a document',
    found({ delegateClients: [{ ...client, clientId: 'https://a.example/x' }] }),
    /^\/delegateClients\/0\/clientId must not be a URL/,
  ],
  ['one client twice', found({ delegateClients: [client, client] }), /^\/delegateClients\/1\/clientId is the same/],
  ['one issuer twice', found({ trustedIssuers: [issuer, issuer] }), /^\/trustedIssuers\/1\/issuerUrl is the same/],
  ['our own issuer', ofIssuer({ issuerUrl: 'https://gw.example' }), /issuerUrl must be another one/],
  ['plain http', ofIssuer({ issuerUrl: 'http://idp.example' }), /must be https/],
  ['a private address', ofIssuer({ jwksUrl: 'https://10.0.0.1/keys' }), /jwksUrl 10.0.0.1 is a private address/],
  ['a private address without keys', ofIssuer({ allowPrivateIPs: true }), /allowPrivateIPs needs jwksUrl/],
  ['metadata services', ofIssuer({ allowPrivateIPs: true, jwksUrl: 'http://169.254.169.254/' }), /reserved/],
  ['an unknown client', ofIssuer({ allowedDelegateClients: ['other'] }), /Clients\/0 must name one of/],
  ['all and one', ofIssuer({ allowedDelegateClients: ['*', 'agent'] }), /"\*" must stand alone/],
  ['nothing', ofIssuer({ allowedDelegateClients: undefined }), /must have allowedDelegateClients or jwtBearerGrant/],
  ['actors without audience', ofIssuer({ allowedActors: ['web'] }), /need expectedAudience/],
  ['a registered claim', ofIssuer({ actorClaim: 'may_act', expectedAudience: 'x' }), /registered claim/],
  ['a slow condition', ofIssuer({ actorMatcher: 'claims.a.matches("x")', expectedAudience: 'x' }), /can’t be used/],
  [
    'everybody and may_act',
    ofIssuer({ allowMayAct: true, expectedAudience: 'x', allowedDelegateClients: ['*'] }),
    /excludes "\*"/,
  ],
  [
    'no age',
    ofIssuer({ jwtBearerGrant: { maxAssertionAge: '0s', subjectBindings: [binding] } }),
    /maxAssertionAge must be longer/,
  ],
  [
    'too old an age',
    ofIssuer({ jwtBearerGrant: { maxAssertionAge: '61m', subjectBindings: [binding] } }),
    /maxAssertionAge must be at most 1h/,
  ],
  [
    'one subject twice',
    ofIssuer({ jwtBearerGrant: { maxAssertionAge: '1m', subjectBindings: [binding, binding] } }),
    /subjectBindings\/1\/subject is the same/,
  ],
] as const)
  test(`${name} is found`, () =>
    assert.ok(
      findings.some((line) => pattern.test(line)),
      findings.join('\n'),
    ))

test.run()
