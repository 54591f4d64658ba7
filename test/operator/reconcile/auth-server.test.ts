/** Checks what a gateway's `authServerConfig` is rendered to, and what the conditions report if it is invalid. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse, stringify } from 'yaml'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { condition, configText, type Plans, plansOfText } from '../../support/operator/plans.ts'

const provider = (more: object = {}, oidc: object = {}) => ({
  name: 'corp',
  type: 'oidc',
  oidcConfig: { issuerUrl: 'https://idp.example', clientId: 'tools', ...oidc },
  ...more,
})

const settings = (more: object = {}) => ({
  issuer: 'https://tools.example',
  upstreamProviders: [provider()],
  ...more,
})

const KEPT = {
  signingKeySecretRefs: [{ name: 'keys', key: 'signing.pem' }],
  hmacSecretRefs: [{ name: 'keys', key: 'hmac' }],
  storage: { type: 'redis', redis: { addr: 'redis:6379' } },
}

/** The defaults of a policy for assertions. */
const ONCE = { replay: 'once', clients: 'confidential' }

const WORLD = `
---
kind: MCPGroup
metadata: {name: tools}
spec: {}
---
kind: MCPOIDCConfig
metadata: {name: own}
spec: {type: inline, inline: {issuer: "https://tools.example"}}
---
kind: MCPOIDCConfig
metadata: {name: other}
spec: {type: inline, inline: {issuer: "https://idp.example"}}
---
kind: Secret
metadata: {name: keys}
stringData: {signing.pem: a, hmac: b}
`

const plansFor = (authServerConfig: object, spec: object = {}, more = ''): Plans =>
  plansOfText(
    stringify({
      kind: 'VirtualMCPServer',
      metadata: { name: 'tools' },
      spec: {
        groupRef: { name: 'tools' },
        incomingAuth: { type: 'oidc', audience: 'tools', oidcConfigRef: { name: 'own' } },
        authServerConfig,
        ...spec,
      },
    }) +
      WORLD +
      more,
  )

const readCondition = (plans: Plans, type: string) => condition(plans.get('VirtualMCPServer/tools'), type)
const isHeld = (plans: Plans) => plans.get('VirtualMCPServer/tools')?.children === 'hold'
const parseConfig = (plans: Plans) => parse(configText(plans.get('VirtualMCPServer/tools'))) as GatewayConfig

test('without keys and storage it serves, and warns about the cost of a restart', () => {
  const plans = plansFor(settings())
  assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
  assert.equal(parseConfig(plans).authServer, {
    issuer: 'https://tools.example',
    upstreamProviders: [provider()],
  })
  assert.is(
    readCondition(plans, 'AuthServerWarning'),
    'True NotPersistent: /spec/authServerConfig: signingKeySecretRefs is not set, hmacSecretRefs is not set, storage is memory: after a restart all users log in again',
  )
})

test('empty lists of keys and secrets are as absent', () => {
  const empty = { ...KEPT, signingKeySecretRefs: [], hmacSecretRefs: [] }
  const lost = 'signingKeySecretRefs is not set, hmacSecretRefs is not set'
  const plans = plansFor(settings(empty))
  assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
  assert.match(readCondition(plans, 'AuthServerWarning') ?? '', `True NotPersistent: /spec/authServerConfig: ${lost}:`)
  assert.match(
    readCondition(plansFor(settings(empty), { replicas: 2 }), 'Valid') ?? '',
    `False AuthServerNotShared: /spec/replicas`,
  )
})

test('with both there is no warning, and several replicas are one server', () => {
  const plans = plansFor(settings(KEPT), { replicas: 3 })
  assert.is(readCondition(plans, 'AuthServerWarning'), undefined)
  assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
  const { authServer } = parseConfig(plans)
  assert.equal(authServer?.signingKeyFiles, ['../secrets/keys/signing.pem'])
  assert.equal(authServer?.hmacSecretFiles, ['../secrets/keys/hmac'])
  assert.is(authServer?.storage?.keyPrefix, 'portico:{VirtualMCPServer/default/tools}:')
})

for (const missing of Object.keys(KEPT))
  test(`several replicas without ${missing} keep the running pods`, () => {
    const { [missing as keyof typeof KEPT]: _, ...others } = KEPT
    const plans = plansFor(settings(others), { replicas: 2 })
    const [what] = missing === 'storage' ? ['storage is memory'] : [`${missing} is not set`]
    assert.is(
      readCondition(plans, 'Valid'),
      `False AuthServerNotShared: /spec/replicas must not be above 1: each pod would be an authorization server of its own (${what})`,
    )
    assert.ok(isHeld(plans))
  })

const oauth2 = (more: object = {}, name = 'code') => ({
  name,
  type: 'oauth2',
  oauth2Config: {
    authorizationEndpoint: 'https://code.example/authorize',
    tokenEndpoint: 'https://code.example/token',
    clientId: 'tools',
    ...more,
  },
})
const USER_INFO = { userInfo: { endpointUrl: 'https://api.example/user', fieldMapping: { subjectFields: ['id'] } } }

test('OAuth 2 providers are served, with a warning if none identifies users', () => {
  const ref = { name: 'keys', key: 'hmac' }
  const plans = plansFor(settings({ upstreamProviders: [oauth2({ ...USER_INFO, clientSecretRef: ref })] }))
  assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
  assert.is(readCondition(plans, 'IdentitySynthesized'), undefined)
  assert.equal(parseConfig(plans).authServer?.upstreamProviders, [
    oauth2({ ...USER_INFO, clientSecretFile: '../secrets/keys/hmac' }),
  ])
  const upstreamProviders = [oauth2(), provider()]
  assert.is(
    readCondition(plansFor(settings({ upstreamProviders })), 'IdentitySynthesized'),
    'True NoIdentity: /spec/authServerConfig: the provider "code" has neither userInfo nor identityFromToken: each login counts as a new user and is asked for consent: set one of the two',
  )
  const named = plansFor(settings({ upstreamProviders, primaryUpstreamProvider: 'corp' }))
  assert.is(readCondition(named, 'IdentitySynthesized'), undefined)
  assert.is(parseConfig(named).authServer?.primaryUpstreamProvider, 'corp')
  const invalid = plansFor(settings({ upstreamProviders }), { replicas: 2 })
  assert.match(readCondition(invalid, 'Valid') ?? '', 'False AuthServerNotShared')
  assert.match(readCondition(invalid, 'IdentitySynthesized') ?? '', 'True NoIdentity')
})

test('a client that is to be registered needs no id, and its token comes from a Secret', () => {
  const dcrConfig = { registrationEndpoint: 'https://code.example/register' }
  const { oauth2Config } = oauth2(USER_INFO)
  const { clientId: _, ...rest } = oauth2Config
  const registering = (more: object) =>
    plansFor(
      settings({
        upstreamProviders: [
          { name: 'code', type: 'oauth2', oauth2Config: { ...rest, dcrConfig: { ...dcrConfig, ...more } } },
        ],
      }),
    )
  const found = registering({ initialAccessTokenRef: { name: 'keys', key: 'hmac' } })
  assert.is(readCondition(found, 'Valid'), 'True ConfigValid')
  assert.equal(parseConfig(found).authServer?.upstreamProviders[0]?.oauth2Config?.dcrConfig, {
    ...dcrConfig,
    initialAccessTokenFile: '../secrets/keys/hmac',
  })
  const missing = registering({ initialAccessTokenRef: { name: 'keys', key: 'gone' } })
  assert.ok(isHeld(missing))
  assert.match(JSON.stringify(missing.get('VirtualMCPServer/tools')?.status), 'gone')
})

test('invalid settings of a provider are reported at their field', () => {
  for (const [upstreamProvider, text] of [
    [oauth2({ tokenEndpoint: 'https://10.0.0.1/token', ...USER_INFO }), 'oauth2Config/tokenEndpoint 10.0.0.1'],
    [oauth2({ ...USER_INFO, identityFromToken: { subjectPath: 'id' } }), 'oauth2Config/userInfo must be left out'],
    [provider({}, { redirectUri: 'https://x.example/elsewhere' }), 'oidcConfig/redirectUri its path must end'],
  ] as const) {
    const plans = plansFor(settings({ upstreamProviders: [upstreamProvider] }))
    assert.match(readCondition(plans, 'Valid') ?? '', `/spec/authServerConfig/upstreamProviders/0/${text}`)
    assert.ok(isHeld(plans))
  }
})

test('a warning covers pods that an autoscaler scales', () => {
  const seen =
    '---\nkind: Observation\nmetadata: {name: tools}\nobservation: {kind: VirtualMCPServer, replicas: 3, readyReplicas: 3}\n'
  const plans = plansFor(settings(), {}, seen)
  assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
  assert.match(readCondition(plans, 'AuthServerWarning') ?? '', 'each of 3 pods has logins of its own')
})

test('its issuer must equal that of the MCPOIDCConfig', () => {
  const incomingAuth = { type: 'oidc', audience: 'tools', oidcConfigRef: { name: 'other' } }
  const plans = plansFor(settings(), { incomingAuth })
  assert.is(
    readCondition(plans, 'Valid'),
    'False IssuerMismatch: /spec/authServerConfig/issuer: the issuer https://tools.example must equal that of MCPOIDCConfig "other", which verifies its tokens: there it is https://idp.example',
  )
  assert.ok(isHeld(plans))
})

test('its own issuer may have a private address, since nothing is called there', () => {
  const issuer = 'https://10.0.0.7'
  const own = { type: 'oidc', audience: 'tools', oidcConfigRef: { name: 'near' } }
  const config = `---\nkind: MCPOIDCConfig\nmetadata: {name: near}\nspec: {type: inline, inline: {issuer: "${issuer}"}}\n`
  const plans = plansFor(settings({ issuer }), { incomingAuth: own }, config)
  assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
  assert.is(condition(plans.get('MCPOIDCConfig/near'), 'Valid'), 'True ConfigValid')

  const other = `---\nkind: MCPServer\nmetadata: {name: other}\nspec: {image: x, transport: streamable-http, oidcConfigRef: {name: near, audience: a}}\n`
  const both = plansFor(settings({ issuer }), { incomingAuth: own }, config + other)
  assert.match(condition(both.get('MCPServer/other'), 'Valid') ?? '', '10.0.0.7 is a private address')
  assert.is(both.get('MCPServer/other')?.children, 'hold')
  const alone = plansOfText(WORLD + config + other)
  assert.match(condition(alone.get('MCPOIDCConfig/near'), 'Valid') ?? '', 'only under jwksAllowPrivateIP')
})

test('the issuer itself warns about fields of a shared config that only others use', () => {
  const config = `
---
kind: MCPOIDCConfig
metadata: {name: own}
spec:
  type: inline
  inline: {issuer: "https://tools.example", clientId: c, clientSecretRef: {name: keys, key: hmac}, introspectionUrl: "https://tools.example/oauth/introspect", jwksUrl: "https://tools.example/.well-known/jwks.json"}
---
kind: MCPServer
metadata: {name: other}
spec: {image: x, transport: streamable-http, oidcConfigRef: {name: own, audience: a}}
`
  const incomingAuth = { type: 'oidc', audience: 'tools', oidcConfigRef: { name: 'own' } }
  const gateway = stringify({
    kind: 'VirtualMCPServer',
    metadata: { name: 'tools' },
    spec: { groupRef: { name: 'tools' }, incomingAuth, authServerConfig: settings(KEPT) },
  })
  const plans = plansOfText(
    gateway + WORLD.replace(/---\nkind: MCPOIDCConfig\nmetadata: {name: own}\n.*\n/, '') + config,
  )
  assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
  const { oidc } = parseConfig(plans).incomingAuth
  assert.equal(oidc, { issuer: 'https://tools.example', audience: 'tools' })
  assert.match(
    readCondition(plans, 'SettingsWarning') ?? '',
    'True NoEffect: /spec/incomingAuth/oidcConfigRef: MCPOIDCConfig "own": /spec/inline/jwksUrl has no effect here',
  )
  assert.match(readCondition(plans, 'SettingsWarning') ?? '', '/spec/inline/clientSecretRef has no effect here')
  const other = parse(configText(plans.get('MCPServer/other'))) as GatewayConfig
  assert.is(other.incomingAuth.oidc?.introspection?.clientId, 'c')
})

test('an audience is mandatory', () => {
  const plans = plansFor(settings(), { incomingAuth: { type: 'oidc', oidcConfigRef: { name: 'own' } } })
  assert.match(readCondition(plans, 'Valid') ?? '', /^False AudienceMissing/)
})

test('a missing Secret or key is named', () => {
  const oidc = { clientSecretRef: { name: 'client', key: 'secret' } }
  const plans = plansFor(
    settings({ ...KEPT, hmacSecretRefs: [{ name: 'keys', key: 'lost' }], upstreamProviders: [provider({}, oidc)] }),
  )
  const message = readCondition(plans, 'ReferencesResolved') ?? ''
  assert.match(message, 'Secret "keys" has no key "lost"')
  assert.match(message, 'Secret "client" is missing')
  assert.ok(isHeld(plans))
})

test('findings of the data plane are reported at the fields of the object', () => {
  const plans = plansFor(
    settings({
      tokenLifespans: { accessTokenLifespan: '1s' },
      upstreamProviders: [provider({}, { issuerUrl: 'http://10.0.0.1' })],
    }),
  )
  const message = readCondition(plans, 'Valid') ?? ''
  assert.match(message, '/spec/authServerConfig/tokenLifespans/accessTokenLifespan must be from 1m to 24h')
  assert.match(
    message,
    '/spec/authServerConfig/upstreamProviders/0/oidcConfig/issuerUrl 10.0.0.1 is a private address: it is called only under allowPrivateIPs',
  )
})

test('a credential of a login names one of its providers', () => {
  const member = (name: string, providerName: string) => `
---
kind: MCPServerEntry
metadata: {name: ${name}}
spec: {remoteUrl: "https://b.example/mcp", transport: streamable-http, groupRef: {name: tools}, externalAuthConfigRef: {name: ${name}}}
---
kind: MCPExternalAuthConfig
metadata: {name: ${name}}
spec: {type: upstreamInject, upstreamInject: {providerName: ${providerName}}}
`
  const plans = plansFor(settings(), {}, member('right', 'corp') + member('wrong', 'cor'))
  assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
  assert.match(readCondition(plans, 'BackendsReady') ?? '', 'authServerConfig has no upstream provider "cor"')
  assert.equal(
    parseConfig(plans).backends.map(({ name }) => name),
    ['right'],
  )
})

test('a plan contains no secret', () => {
  const plans = plansFor(settings({ ...KEPT, storage: { type: 'redis', redis: { addr: 'redis:6379' } } }))
  assert.not.match(configText(plans.get('VirtualMCPServer/tools')), /signing\.pem: a|hmac: b/)
})

test('clients that exchange tokens get their secrets as files, and issuers keep their fields', () => {
  const clientSecretRef = { name: 'keys', key: 'hmac' }
  const agent = { clientId: 'agent', audiences: ['tools'], scopes: ['tools:call'] }
  const trusted = {
    issuerUrl: 'https://outside.example',
    allowedDelegateClients: ['agent'],
    jwtBearerGrant: {
      ...ONCE,
      maxAssertionAge: '5m',
      subjectBindings: [{ subject: 'ci', allowedResources: ['tools'] }],
    },
  }
  const cimd = { enabled: true, cacheMaxSize: 5 }
  const spec = settings({ cimd, delegateClients: [{ ...agent, clientSecretRef }], trustedIssuers: [trusted] })
  const plans = plansFor(spec)
  assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
  const { delegateClients: [client] = [], trustedIssuers, cimd: documents } = parseConfig(plans).authServer ?? {}
  assert.match(client?.clientSecretFile ?? '', /keys.*hmac$/)
  assert.equal({ ...client, clientSecretFile: '' }, { ...agent, clientSecretFile: '' })
  assert.equal(trustedIssuers, [trusted])
  assert.equal(documents, cimd)
  const missing = [{ ...agent, clientSecretRef: { name: 'keys', key: 'absent' } }]
  assert.ok(isHeld(plansFor(settings({ delegateClients: missing }))))
  // A configuration that the data plane would refuse is not rendered.
  const unknown = [{ ...trusted, allowedDelegateClients: ['nobody'] }]
  assert.match(
    readCondition(plansFor(settings({ trustedIssuers: unknown })), 'Valid') ?? '',
    /must name one of delegateClients/,
  )
})

test('grants in their own form get their files, and no provider is needed beside them', () => {
  const ca = '\n---\nkind: ConfigMap\nmetadata: {name: ca}\ndata: {ca.crt: "-----BEGIN CERTIFICATE-----"}\n'
  const agent = { clientId: 'agent', audiences: ['tools'], scopes: ['tools:call'] }
  const exchange = { issuerRef: 'corp', expectedAudience: 'tools', allowedDelegateClients: ['agent'] }
  const bearer = {
    ...ONCE,
    issuerRef: 'corp',
    maxAssertionAge: '5m',
    subjectBindings: [{ subject: 'ci', allowedResources: ['tools'] }],
  }
  const spec = {
    issuer: 'https://tools.example',
    trustedIssuers: [
      {
        name: 'corp',
        issuerUrl: 'https://outside.example',
        caBundleRef: { configMapRef: { name: 'ca', key: 'ca.crt' } },
      },
    ],
    inboundGrants: {
      tokenExchange: {
        delegateClients: [{ ...agent, clientSecretRef: { name: 'keys', key: 'hmac' } }],
        issuerPolicies: [exchange],
      },
      jwtBearer: { issuerPolicies: [bearer] },
    },
  }
  const plans = plansFor(spec, {}, ca)
  assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
  const { upstreamProviders, trustedIssuers, inboundGrants } = parseConfig(plans).authServer ?? {}
  assert.equal(upstreamProviders, [])
  assert.match(trustedIssuers?.[0]?.caBundleFile ?? '', /ca\.crt$/)
  assert.match(inboundGrants?.tokenExchange?.delegateClients?.[0]?.clientSecretFile ?? '', /keys.*hmac$/)
  assert.equal(inboundGrants?.tokenExchange?.issuerPolicies, [exchange])
  assert.equal(inboundGrants?.jwtBearer?.issuerPolicies, [bearer])
})

test('machines get their secrets and keys as files, and a missing one holds the workload', () => {
  const rights = { allowedResources: ['https://tools.example/mcp'], scopes: ['tools:call'], groups: ['machines'] }
  const secret = { clientId: 'job', clientSecretRef: { name: 'keys', key: 'hmac' }, ...rights }
  const keys = { clientId: 'robot', jwksRef: { name: 'robot' }, ...rights }
  const url = { clientId: 'far', jwksUrl: 'https://far.example/keys', ...rights }
  const withClients = (...clients: object[]) => settings({ inboundGrants: { clientCredentials: { clients } } })
  const robot = `---\nkind: ConfigMap\nmetadata: {name: robot}\ndata: {jwks.json: '{"keys": []}'}\n`
  const plans = plansFor(withClients(secret, keys, url), {}, robot)
  assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
  const [job, inMap, remote] = parseConfig(plans).authServer?.inboundGrants?.clientCredentials?.clients ?? []
  assert.match(job?.clientSecretFile ?? '', /keys.*hmac$/)
  assert.match(inMap?.jwksFile ?? '', /robot.*jwks\.json$/)
  assert.equal({ ...job, clientSecretFile: '' }, { clientId: 'job', clientSecretFile: '', ...rights })
  assert.equal({ ...inMap, jwksFile: '' }, { clientId: 'robot', jwksFile: '', ...rights })
  assert.equal(remote, url)
  const missing = plansFor(withClients(keys))
  assert.ok(isHeld(missing))
  assert.is(readCondition(missing, 'Valid'), 'True ConfigValid')
  assert.match(readCondition(missing, 'ReferencesResolved') ?? '', 'ConfigMapNotFound')
  const delegate = { clientId: 'job', clientSecretRef: { name: 'keys', key: 'hmac' }, audiences: ['x'], scopes: ['s'] }
  const twice = plansFor({ ...withClients(secret), delegateClients: [delegate] })
  assert.match(readCondition(twice, 'Valid') ?? '', /clients\/0\/clientId must not be the id of one of delegateClients/)
})

test('workloads of SPIFFE authenticate by JWT, and unsupported methods are reported', () => {
  const bundle = `---\nkind: ConfigMap\nmetadata: {name: bundle}\ndata: {b.json: '{"keys": []}'}\n`
  const file = { configMapName: 'bundle', configMapKey: 'b.json' }
  const domain = {
    name: 'prod',
    trustDomain: 'example.org',
    methods: ['spiffe_jwt'],
    bundleSource: { type: 'file', file },
  }
  const client = {
    trustDomainRef: 'prod',
    principalPattern: 'spiffe://example.org/ns/a/*',
    clientId: 'a',
    methods: ['spiffe_jwt'],
    resources: ['tools'],
  }
  const withSpiffe = (changes: object = {}, own: object = {}) =>
    plansFor(
      settings({
        spiffeTrustDomains: [{ ...domain, ...changes }],
        inboundGrants: { spiffeClientAuth: [{ ...client, ...own }] },
      }),
      {},
      bundle,
    )
  const plans = withSpiffe()
  assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
  assert.is(readCondition(plans, 'GrantsValid'), 'True GrantsValid')
  const { spiffeTrustDomains, inboundGrants } = parseConfig(plans).authServer ?? {}
  assert.match(spiffeTrustDomains?.[0]?.bundleSource.file ?? '', /bundle.*b\.json$/)
  assert.equal(inboundGrants?.spiffeClientAuth, [client])
  const both = { methods: ['spiffe_x509', 'spiffe_jwt'] }
  for (const refused of [
    withSpiffe(both),
    withSpiffe(both, both),
    withSpiffe({ bundleSource: { type: 'workload_api' } }),
    withSpiffe({
      bundleSource: { type: 'bundle_endpoint', endpoint: { url: 'https://a.example', profile: 'https_spiffe' } },
    }),
  ]) {
    assert.match(readCondition(refused, 'GrantsValid') ?? '', /^False NotSupported/)
    assert.match(readCondition(refused, 'Valid') ?? '', /^False NotSupported/)
    assert.ok(isHeld(refused))
  }
  assert.match(
    readCondition(withSpiffe({}, { principalPattern: 'spiffe://else.org/a' }), 'Valid') ?? '',
    /in the trust domain/,
  )
  assert.match(readCondition(withSpiffe({}, both), 'Valid') ?? '', /NotSupported/)
})

test('a rule that admits the ServiceAccount default without naming it is reported', () => {
  const withRules = (...subjectRules: object[]) =>
    plansFor(
      settings({
        trustedIssuers: [
          {
            issuerUrl: 'https://kubernetes.default.svc',
            keySource: 'cluster',
            jwtBearerGrant: {
              maxAssertionAge: '1h',
              subjectRules: subjectRules.map((rule, index) => ({
                name: `r${index}`,
                allowedResources: ['tools'],
                ...rule,
              })),
            },
          },
        ],
      }),
    )
  const account = 'system:serviceaccount:'
  for (const rule of [
    { subject: `${account}a:*` },
    { subject: `${account}a:de*` },
    { subject: `${account}*` },
    { matcher: `claims.sub.startsWith("${account}a:")` },
    { matcher: 'claims["kubernetes.io"].namespace == "a"' },
    { subject: `${account}default:*`, matcher: 'claims.sub != ""' },
  ]) {
    const plans = withRules({ subject: `${account}a:agent` }, rule)
    assert.match(
      readCondition(plans, 'GrantsValid') ?? '',
      /^False BroadWorkload.*subjectRules\/1: the rule "r1"/,
      JSON.stringify(rule),
    )
    assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
    assert.not.ok(isHeld(plans))
  }
  for (const rule of [
    { subject: `${account}a:agent` },
    { subject: `${account}a:default` },
    { subject: `${account}a:agent-*` },
    { matcher: `claims.sub == "${account}a:default"` },
    { matcher: 'claims["kubernetes.io"].namespace == "a" && claims["kubernetes.io"].serviceaccount.name == "agent"' },
    { subject: `${account}a:*`, matcher: '!claims.sub.endsWith(":default")' },
    { matcher: 'claims.repository == "acme/site"' },
  ])
    assert.is(readCondition(withRules(rule), 'GrantsValid'), 'True GrantsValid', JSON.stringify(rule))
})

test('keys of ServiceAccounts come from the API server, by the token of the pod', () => {
  const subjectBindings = [{ subject: 'a', allowedResources: ['tools'] }]
  const jwtBearerGrant = { ...ONCE, maxAssertionAge: '5m', subjectBindings }
  const trusted = { issuerUrl: 'https://kubernetes.default.svc', keySource: 'cluster', jwtBearerGrant }
  const plans = plansFor(settings({ trustedIssuers: [trusted] }))
  assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
  const { trustedIssuers, cluster } = parseConfig(plans).authServer ?? {}
  assert.equal(trustedIssuers, [trusted])
  assert.equal(cluster, { tokenFile: '../cluster/token', caFile: '../cluster/ca.crt' })
  const { keySource: _, ...found } = trusted
  assert.is(parseConfig(plansFor(settings({ trustedIssuers: [found] }))).authServer?.cluster, undefined)
})

test('a backend that needs a login’s token is reported as unreachable for callers without one, until it needs none', () => {
  const backend = `
---
kind: MCPServerEntry
metadata: {name: wiki}
spec:
  remoteUrl: https://wiki.example.com/mcp
  transport: streamable-http
  groupRef: {name: tools}
  externalAuthConfigRef: {name: wiki}
---
kind: MCPExternalAuthConfig
metadata: {name: wiki}
spec: {type: upstreamInject, upstreamInject: {providerName: later}}
`
  const later = { ...provider(), name: 'later', loginPolicy: 'onDemand' }
  const subjectRules = [{ name: 'all', matcher: 'true', allowedResources: ['tools'] }]
  const jwtBearerGrant = { maxAssertionAge: '5m', subjectRules }
  const clients = [{ clientId: 'job', clientSecretRef: { name: 'keys', key: 'hmac' }, allowedResources: ['tools'] }]
  const byAssertion = { trustedIssuers: [{ issuerUrl: 'https://outside.example', jwtBearerGrant }] }
  const planWith = (grants: object, more: object = {}, backends = backend) =>
    plansFor(settings({ ...grants, upstreamProviders: [provider(), { ...later, ...more }] }), {}, backends)
  for (const grants of [byAssertion, { inboundGrants: { clientCredentials: { clients } } }]) {
    const plans = planWith(grants)
    assert.match(
      readCondition(plans, 'GrantsValid') ?? '',
      /^False LinksUnreachable: .*\/upstreamProviders\/1: tokens of this provider belong to logins.*"wiki"/,
    )
    assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
    assert.not.ok(isHeld(plans))
    assert.is(readCondition(planWith(grants, { tokensPer: 'user' }), 'GrantsValid'), 'True GrantsValid')
    assert.is(readCondition(planWith(grants, {}, ''), 'GrantsValid'), 'True GrantsValid')
  }
  assert.is(readCondition(planWith({}), 'GrantsValid'), undefined)
  const { upstreamProviders = [] } = parseConfig(planWith(byAssertion, { tokensPer: 'user' })).authServer ?? {}
  assert.equal(
    upstreamProviders.map(({ tokensPer }) => tokensPer),
    [undefined, 'user'],
  )
})

test('a grant in both forms gets its own condition until one of them is removed', () => {
  const jwtBearerGrant = { maxAssertionAge: '5m', subjectBindings: [{ subject: 'ci', allowedResources: ['tools'] }] }
  const planWith = (issuer: object) =>
    plansFor(
      settings({
        trustedIssuers: [{ name: 'corp', issuerUrl: 'https://outside.example', ...issuer }],
        inboundGrants: { jwtBearer: {} },
      }),
    )
  const plans = planWith({ jwtBearerGrant })
  assert.match(readCondition(plans, 'GrantsValid') ?? '', /^False GrantConflict: .*trustedIssuers\/0\/jwtBearerGrant/)
  assert.match(readCondition(plans, 'Valid') ?? '', /^False/)
  assert.ok(isHeld(plans))
  assert.is(readCondition(planWith({}), 'GrantsValid'), 'True GrantsValid')
})

test('under disableUpstreamTokenInjection a backend that needs a provider’s token is left out', () => {
  const backend = `
---
kind: MCPServerEntry
metadata: {name: wiki}
spec:
  remoteUrl: https://wiki.example.com/mcp
  transport: streamable-http
  groupRef: {name: tools}
  externalAuthConfigRef: {name: wiki}
---
kind: MCPExternalAuthConfig
metadata: {name: wiki}
spec: {type: upstreamInject, upstreamInject: {providerName: corp}}
`
  assert.is(parseConfig(plansFor(settings(), {}, backend)).backends.length, 1)
  const plans = plansFor(settings({ disableUpstreamTokenInjection: true }), {}, backend)
  assert.is(parseConfig(plans).backends.length, 0)
  assert.match(readCondition(plans, 'BackendsReady') ?? '', /are not sent: disableUpstreamTokenInjection is set/)
})

test('a provider on demand needs another one that identifies users', () => {
  const later = { ...provider(), name: 'later', loginPolicy: 'onDemand' }
  const found = plansFor(settings({ upstreamProviders: [provider(), later] }))
  assert.is(readCondition(found, 'Valid'), 'True ConfigValid')
  assert.equal(
    parseConfig(found).authServer?.upstreamProviders.map(({ loginPolicy }) => loginPolicy),
    [undefined, 'onDemand'],
  )
  const unknown = plansFor(settings({ upstreamProviders: [oauth2(), later] }))
  assert.ok(isHeld(unknown))
  assert.ok(
    (readCondition(unknown, 'Valid') ?? '').includes(
      'no provider identifies users, so a later login at this one could not be matched to its user',
    ),
  )
  const first = plansFor(settings({ upstreamProviders: [later, provider()] }))
  assert.ok(isHeld(first))
  assert.ok((readCondition(first, 'Valid') ?? '').includes('must be required'), readCondition(first, 'Valid'))
})

test('users choose among providers: each domain has one, and a backend that needs the token of one of them is left out', () => {
  const other = { ...provider(), name: 'partner', emailDomains: ['partner.example'] }
  const choice = { primaryProviders: ['corp', 'partner'], upstreamProviders: [provider(), other] }
  const plans = plansFor(settings(choice))
  assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
  const { primaryProviders, upstreamProviders = [] } = parseConfig(plans).authServer ?? {}
  assert.equal(primaryProviders, choice.primaryProviders)
  assert.equal(upstreamProviders[1]?.emailDomains, ['partner.example'])
  for (const [changes, says] of [
    [
      { upstreamProviders: [{ ...provider(), emailDomains: ['Partner.example'] }, other] },
      'leads to the provider "corp" already',
    ],
    [{ primaryProviders: ['corp', 'nobody'] }, 'must name one of upstreamProviders'],
    [{ primaryProviders: ['partner'] }, 'users choose among several primaryProviders'],
    [{ primaryUpstreamProvider: 'corp' }, 'excludes primaryUpstreamProvider'],
  ] as const) {
    const wrong = plansFor(settings({ ...choice, ...changes }))
    assert.ok((readCondition(wrong, 'Valid') ?? '').includes(says), readCondition(wrong, 'Valid'))
    assert.ok(isHeld(wrong))
  }
  const filter = { claim: 'groups', rules: [{ groups: ['eng'], upstreamProviders: ['partner'] }] }
  const filtered = readCondition(plansFor(settings(choice), { authServerUpstreamFilter: filter }), 'Valid') ?? ''
  assert.ok(filtered.includes('of primaryProviders each login visits the one that its user has chosen'), filtered)
  const inline = { policies: ['permit(principal, action, resource);'], primaryUpstreamProvider: 'corp' }
  const incomingAuth = {
    type: 'oidc',
    audience: 'tools',
    oidcConfigRef: { name: 'own' },
    authzConfig: { type: 'inline', inline },
  }
  const judged = readCondition(plansFor(settings(choice), { incomingAuth }), 'Valid') ?? ''
  assert.ok(judged.includes('of which each login visits one: policies would deny all other users'), judged)
})

test('policies read the ID token of one of its providers', () => {
  const chat = {
    name: 'chat',
    type: 'oauth2',
    oauth2Config: {
      authorizationEndpoint: 'https://chat.example/a',
      tokenEndpoint: 'https://chat.example/t',
      clientId: 'x',
      userInfo: { endpointUrl: 'https://chat.example/me' },
    },
  }
  const plansWith = (name: string) => {
    const inline = { policies: ['permit(principal, action, resource);'], primaryUpstreamProvider: name }
    const oidcConfigRef = { name: 'own' }
    const incomingAuth = { type: 'oidc', audience: 'tools', oidcConfigRef, authzConfig: { type: 'inline', inline } }
    const later = { ...provider(), name: 'later', loginPolicy: 'onDemand' }
    return plansFor(settings({ upstreamProviders: [provider(), chat, later] }), { incomingAuth })
  }
  assert.is(parseConfig(plansWith('corp')).authz?.primaryUpstreamProvider, 'corp')
  for (const [name, says] of [
    ['chat', 'is of type oauth2, which gives no ID token'],
    ['later', 'is visited on demand (loginPolicy), so a login gives no ID token of it'],
    ['other', 'the authorization server has no upstream provider "other"'],
  ] as const) {
    const plan = plansWith(name).get('VirtualMCPServer/tools')
    assert.is(plan?.children, 'hold')
    assert.ok((condition(plan, 'Valid') ?? '').includes(says), condition(plan, 'Valid'))
  }
})

test.run()
