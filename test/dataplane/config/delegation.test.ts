/** Checks that mistakes in the clients and issuers for token exchange are reported before anything is served. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthServerConfig } from '../../../dataplane/config/auth-server.ts'
import { machineClientFindings } from '../../../dataplane/config/check/auth-server.ts'
import { delegationFindings } from '../../../dataplane/config/check/authserver/delegation.ts'

type Parts = Partial<AuthServerConfig>
const client = { clientId: 'agent', clientSecretFile: 'a', audiences: ['x'], scopes: ['s'] }
const issuer = { issuerUrl: 'https://idp.example', allowedDelegateClients: ['agent'] }
const binding = { subject: 'ci', allowedResources: ['x'] }

function listFindings(parts: { readonly [K in keyof Parts]?: Parts[K] | undefined }): string[] {
  const config = {
    issuer: 'https://gw.example',
    delegateClients: [client],
    upstreamProviders: [],
    ...parts,
  } as AuthServerConfig
  return delegationFindings(config, '').map(({ pointer, message }) => `${pointer} ${message}`)
}
const named = { issuerUrl: 'https://idp.example', name: 'corp' }
const bearer = { issuerRef: 'corp', maxAssertionAge: '5m', subjectBindings: [binding] }
const ofGrants = (
  inboundGrants: AuthServerConfig['inboundGrants'],
  more: Parts | { delegateClients: undefined } = {},
) => listFindings({ delegateClients: undefined, trustedIssuers: [named], inboundGrants, ...more })
const ofIssuer = (more: object) => listFindings({ trustedIssuers: [{ ...issuer, ...more }] })

test('keys of ServiceAccounts come only from the API server', () => {
  const ofCluster = { keySource: 'cluster', issuerUrl: 'https://10.0.0.1' }
  assert.equal(ofIssuer(ofCluster), [])
  assert.match(ofIssuer({ ...ofCluster, jwksUrl: 'https://x.example/keys' }).join(), /jwksUrl must be left out/)
  assert.match(ofIssuer({ ...ofCluster, caBundleFile: 'ca' }).join(), /caBundleFile must be left out/)
  assert.match(ofIssuer({ ...ofCluster, allowPrivateIPs: true }).join(), /allowPrivateIPs must be left out/)
  const checkServer = (apiServer: string) => listFindings({ cluster: { apiServer, tokenFile: 't' } })
  assert.equal([...checkServer('https://kubernetes.default.svc'), ...checkServer('https://127.0.0.1:6443')], [])
  assert.match(checkServer('https://keys.example').join(), /^\/cluster\/apiServer must be the cluster’s own/)
})

test('a machine client has one way to authenticate, and a unique id', () => {
  const machine = { clientId: 'job', clientSecretFile: 's', allowedResources: ['x'] }
  const withClients = (clients: object[], more: object = {}) =>
    machineClientFindings(
      {
        issuer: 'https://gw.example',
        upstreamProviders: [],
        inboundGrants: { clientCredentials: { clients } },
        ...more,
      } as AuthServerConfig,
      '',
    ).map(({ pointer, message }) => `${pointer.replace('/inboundGrants/clientCredentials/clients', '')} ${message}`)
  const url = (jwksUrl: string) => ({ clientId: 'job', jwksUrl, allowedResources: ['x'] })
  assert.equal(withClients([machine, { ...url('https://far.example/keys'), clientId: 'far' }]), [])
  const local = { issuer: 'http://127.0.0.1:1' }
  assert.equal(withClients([url('http://localhost:2/keys')], local), [])
  assert.match(withClients([url('http://localhost:2/keys')]).join(), /^\/0\/jwksUrl must be https/)
  assert.match(withClients([url('http://far.example/keys')], local).join(), /^\/0\/jwksUrl must be https/)
  assert.match(withClients([url('https://a:b@far.example/keys')]).join(), /credentials/)
  assert.match(withClients([machine, machine]).join(), /^\/1\/clientId is the same/)
  assert.match(withClients([{ ...machine, clientId: 'https://a.example/x' }]).join(), /must not be a URL/)
  assert.match(withClients([{ ...machine, jwksFile: 'k' }]).join(), /^\/0 must have exactly one of/)
  assert.match(withClients([{ ...machine, clientSecretFile: undefined }]).join(), /^\/0 must have exactly one of/)
  const twice = { delegateClients: [{ ...client, clientId: 'job' }] }
  assert.match(withClients([machine], twice).join(), /must not be the id of one of delegateClients/)
})

test('a valid configuration has no finding', () => {
  const jwtBearerGrant = { maxAssertionAge: '5m', subjectBindings: [binding] }
  const { allowedDelegateClients: _, ...other } = { ...issuer, issuerUrl: 'https://other.example' }
  const actors = { expectedAudience: 'x', actorClaim: 'azp', actorMatcher: 'claims.azp == "web"', allowMayAct: true }
  assert.equal(
    listFindings({
      trustedIssuers: [
        { ...issuer, ...actors },
        { ...other, jwtBearerGrant },
      ],
    }),
    [],
  )
  assert.equal(listFindings({ issuer: 'http://127.0.0.1:1', insecureAllowConfidentialOverLoopbackHTTP: true }), [])
  assert.equal(ofGrants({ jwtBearer: { issuerPolicies: [bearer] }, tokenExchange: { delegateClients: [client] } }), [])
  // One grant in each form.
  assert.equal(
    listFindings({
      trustedIssuers: [{ ...issuer, name: 'corp' }],
      inboundGrants: { jwtBearer: { issuerPolicies: [bearer] } },
    }),
    [],
  )
  assert.equal(ofIssuer({ allowPrivateIPs: true, jwksUrl: 'https://10.0.0.1/keys' }), [])
})

for (const [name, findings, pattern] of [
  ['secrets in the clear', listFindings({ issuer: 'http://127.0.0.1:1' }), /^\/delegateClients needs an https issuer/],
  [
    'secrets in the clear beyond loopback',
    listFindings({
      issuer: 'http://gw.example',
      insecureAllowConfidentialOverLoopbackHTTP: true,
      insecureAllowHTTP: true,
    }),
    /^\/delegateClients needs an https issuer/,
  ],
  [
    'an id like a document',
    listFindings({ delegateClients: [{ ...client, clientId: 'https://a.example/x' }] }),
    /^\/delegateClients\/0\/clientId must not be a URL/,
  ],
  [
    'one client twice',
    listFindings({ delegateClients: [client, client] }),
    /^\/delegateClients\/1\/clientId is the same/,
  ],
  [
    'one issuer twice',
    listFindings({ trustedIssuers: [issuer, issuer] }),
    /^\/trustedIssuers\/1\/issuerUrl is the same/,
  ],
  ['our own issuer', ofIssuer({ issuerUrl: 'https://gw.example' }), /issuerUrl must not be the issuer of this server/],
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
  [
    'a client in both forms',
    ofGrants({ tokenExchange: {} }, { delegateClients: [client] }),
    /^\/delegateClients GrantConflict: must not be set beside inboundGrants.tokenExchange/,
  ],
  [
    'an issuer’s tokens in both forms',
    listFindings({
      delegateClients: undefined,
      trustedIssuers: [{ ...issuer, allowMayAct: true }],
      inboundGrants: { tokenExchange: {} },
    }),
    /^\/trustedIssuers\/0\/allowMayAct GrantConflict/,
  ],
  [
    'an issuer’s assertions in both forms',
    ofGrants(
      { jwtBearer: {} },
      { trustedIssuers: [{ ...named, jwtBearerGrant: { maxAssertionAge: '1m', subjectBindings: [binding] } }] },
    ),
    /^\/trustedIssuers\/0\/jwtBearerGrant GrantConflict: must not be set beside inboundGrants.jwtBearer/,
  ],
  [
    'one name twice',
    ofGrants({}, { trustedIssuers: [named, { ...named, issuerUrl: 'https://b.example' }] }),
    /trustedIssuers\/1\/name is the same/,
  ],
  [
    'an unknown issuer',
    ofGrants({ jwtBearer: { issuerPolicies: [{ ...bearer, issuerRef: 'other' }] } }),
    /^\/inboundGrants\/jwtBearer\/issuerPolicies\/0\/issuerRef must be the name of one of trustedIssuers/,
  ],
  [
    'two policies for an issuer',
    ofGrants({ jwtBearer: { issuerPolicies: [bearer, bearer] } }),
    /issuerPolicies\/1\/issuerRef is the same/,
  ],
  [
    'too old an age in a policy of a grant',
    ofGrants({ jwtBearer: { issuerPolicies: [{ ...bearer, maxAssertionAge: '61m' }] } }),
    /^\/inboundGrants\/jwtBearer\/issuerPolicies\/0\/maxAssertionAge must be at most 1h/,
  ],
  [
    'an unknown client in a policy of a grant',
    ofGrants({ tokenExchange: { issuerPolicies: [{ issuerRef: 'corp', allowedDelegateClients: ['agent'] }] } }),
    /^\/inboundGrants\/tokenExchange\/issuerPolicies\/0\/allowedDelegateClients\/0 must name one of/,
  ],
  [
    'secrets of a grant’s clients in the clear',
    ofGrants({ tokenExchange: { delegateClients: [client] } }, { issuer: 'http://127.0.0.1:1' }),
    /^\/inboundGrants\/tokenExchange\/delegateClients needs an https issuer/,
  ],
] as const)
  test(`${name} is found`, () =>
    assert.ok(
      findings.some((line) => pattern.test(line)),
      findings.join('\n'),
    ))

test.run()
