/** An authorization server in the proxy before one server: `authServerRef`, or an `externalAuthConfigRef` of that type. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import { checkGateway } from '../../../dataplane/config/check/gateway.ts'
import { gatewayConfigSchema } from '../../../dataplane/config/gateway.ts'
import { configParser } from '../../../dataplane/config/read/parse.ts'
import { condition, configText, type Plans, plansOfText } from '../../support/operator/plans.ts'

const read = configParser(gatewayConfigSchema, checkGateway)

const world = (more = '', issuer = 'https://tools.example') => `
kind: MCPGroup
metadata: {name: tools}
---
kind: MCPOIDCConfig
metadata: {name: own}
spec: {type: inline, inline: {issuer: "${issuer}"}}
---
kind: MCPExternalAuthConfig
metadata: {name: login}
spec:
  type: embeddedAuthServer
  embeddedAuthServer:
    issuer: https://tools.example
    hmacSecretRefs: [{name: keys, key: hmac}]
    upstreamProviders:
      - {name: corp, type: oidc, oidcConfig: {issuerUrl: "https://idp.example", clientId: tools}}
      - {name: wiki, type: oidc, oidcConfig: {issuerUrl: "https://wiki.example", clientId: tools}}
---
kind: Secret
metadata: {name: keys}
stringData: {hmac: a}
---
kind: MCPExternalAuthConfig
metadata: {name: header}
spec: {type: headerInjection, headerInjection: {headerName: x-key, valueSecretRef: {name: keys, key: hmac}}}
---
kind: MCPExternalAuthConfig
metadata: {name: injected}
spec: {type: upstreamInject, upstreamInject: {providerName: wiki}}
---
${more}`

const OIDC = 'oidcConfigRef: {name: own, audience: a}'
const KINDS = {
  MCPServer: 'image: x, transport: streamable-http',
  MCPRemoteProxy: 'remoteUrl: "https://b.example/mcp"',
} as const
const buildObject = (kind: string, spec: string) => `kind: ${kind}\nmetadata: {name: one}\nspec: {${spec}}\n`

for (const [kind, required] of Object.entries(KINDS)) {
  const planWith = (spec: string, issuer?: string): Plans =>
    plansOfText(world(buildObject(kind, `${required}, ${spec}`), issuer))
  const readCondition = (plans: Plans, type: string) => condition(plans.get(`${kind}/one`), type)
  const parseConfig = (plans: Plans) => read(configText(plans.get(`${kind}/one`)))

  for (const field of ['authServerRef', 'externalAuthConfigRef'])
    test(`${kind}, ${field}: its proxy logs users in, and its server gets the token of their provider`, () => {
      const plans = planWith(`${OIDC}, ${field}: {name: login}`)
      assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
      const { authServer, backends, incomingAuth } = parseConfig(plans)
      assert.is(authServer?.issuer, incomingAuth.oidc?.issuer)
      assert.equal(authServer?.hmacSecretFiles, ['../secrets/keys/hmac'])
      assert.equal(backends[0]?.credential, { type: 'upstreamInject', upstreamInject: { providerName: 'corp' } })
      assert.match(
        readCondition(plans, 'AuthServerWarning') ?? '',
        'MCPExternalAuthConfig "login": signingKeySecretRefs is not set, storage is memory: after a restart',
      )
      assert.is(condition(plans.get('MCPExternalAuthConfig/login'), 'Ready'), 'True Ready')
    })

  test(`${kind}: the proxy warns about fields of the config that only others use`, () => {
    const others =
      'clientId: c, clientSecretRef: {name: keys, key: hmac}, introspectionUrl: "https://tools.example/oauth/introspect"'
    const shared = world(buildObject(kind, `${required}, ${OIDC}, authServerRef: {name: login}`)).replace(
      'inline: {issuer: "https://tools.example"}',
      `inline: {issuer: "https://tools.example", ${others}}`,
    )
    const plans = plansOfText(
      `${shared}---\nkind: MCPServer\nmetadata: {name: other}\nspec: {${KINDS.MCPServer}, ${OIDC}}`,
    )
    assert.is(readCondition(plans, 'Valid'), 'True ConfigValid')
    assert.is(parseConfig(plans).incomingAuth.oidc?.introspection, undefined)
    const warning = readCondition(plans, 'SettingsWarning') ?? ''
    for (const field of ['introspectionUrl', 'clientSecretRef'])
      assert.match(warning, `/spec/oidcConfigRef: MCPOIDCConfig "own": /spec/inline/${field} has no effect here`)
    assert.is(read(configText(plans.get('MCPServer/other'))).incomingAuth.oidc?.introspection?.clientId, 'c')
  })

  test(`${kind}: a warning says that no provider identifies users`, () => {
    const code = `
kind: MCPExternalAuthConfig
metadata: {name: code}
spec:
  type: embeddedAuthServer
  embeddedAuthServer:
    issuer: https://tools.example
    upstreamProviders:
      - name: code
        type: oauth2
        oauth2Config: {authorizationEndpoint: "https://c.example/a", tokenEndpoint: "https://c.example/t", clientId: x}
---
`
    const plans = plansOfText(world(code + buildObject(kind, `${required}, ${OIDC}, authServerRef: {name: code}`)))
    assert.match(
      readCondition(plans, 'IdentitySynthesized') ?? '',
      'NoIdentity: MCPExternalAuthConfig "code": the provider "code"',
    )
    assert.is(readCondition(planWith(`${OIDC}, authServerRef: {name: login}`), 'IdentitySynthesized'), undefined)
  })

  test(`${kind}: another credential is sent in its place, of a provider that it has`, () => {
    const header = parseConfig(planWith(`${OIDC}, authServerRef: {name: login}, externalAuthConfigRef: {name: header}`))
    assert.is(header.backends[0]?.credential, undefined)
    assert.is(header.backends[0]?.headerFiles?.[0]?.name, 'x-key')
    const wiki = parseConfig(planWith(`${OIDC}, authServerRef: {name: login}, externalAuthConfigRef: {name: injected}`))
    assert.is(wiki.backends[0]?.credential?.upstreamInject?.providerName, 'wiki')
  })

  test(`${kind}: invalid settings are reported, and not served`, () => {
    const expectRefusal = (spec: string, type: string, text: string, issuer?: string) => {
      const plans = planWith(spec, issuer)
      assert.match(readCondition(plans, type) ?? '', text)
      assert.is(plans.get(`${kind}/one`)?.children, 'hold', text)
    }
    expectRefusal(
      'authServerRef: {name: login}',
      'Valid',
      '/spec/oidcConfigRef must be set beside an authorization server',
    )
    expectRefusal(
      `${OIDC}, authServerRef: {name: login}`,
      'Valid',
      'IssuerMismatch: /spec/authServerRef: the issuer https://tools.example must equal that of MCPOIDCConfig "own"',
      'https://other.example',
    )
    expectRefusal(
      `${OIDC}, authServerRef: {name: login}, externalAuthConfigRef: {name: login}`,
      'Valid',
      'set only one of',
    )
    expectRefusal(
      `${OIDC}, authServerRef: {name: lost}`,
      'ReferencesResolved',
      'MCPExternalAuthConfig "lost" is missing',
    )
    expectRefusal(
      `${OIDC}, authServerRef: {name: header}`,
      'Valid',
      'is of type headerInjection, not embeddedAuthServer',
    )
    expectRefusal(`${OIDC}, authServerRef: {name: login}, replicas: 2`, 'Valid', 'AuthServerNotShared: /spec/replicas')
  })
}

test('under disableUpstreamTokenInjection a proxy sends no token of a provider', () => {
  const planWith = (spec: string) =>
    plansOfText(
      world(
        buildObject('MCPRemoteProxy', `${KINDS.MCPRemoteProxy}, ${OIDC}, authServerRef: {name: login}${spec}`),
      ).replace(
        'issuer: https://tools.example\n',
        'issuer: https://tools.example\n    disableUpstreamTokenInjection: true\n',
      ),
    ).get('MCPRemoteProxy/one')
  assert.is(read(configText(planWith(''))).backends[0]?.credential, undefined)
  const planned = planWith(', externalAuthConfigRef: {name: injected}')
  assert.match(condition(planned, 'Valid') ?? '', 'are not sent: disableUpstreamTokenInjection is set')
  assert.is(planned?.children, 'hold')
})

test('a proxy whose users choose among providers has no single token to send', () => {
  const planWith = (more: string) =>
    plansOfText(
      world(buildObject('MCPRemoteProxy', `${KINDS.MCPRemoteProxy}, ${OIDC}, authServerRef: {name: login}`)).replace(
        'issuer: https://tools.example\n',
        `issuer: https://tools.example\n    ${more}\n`,
      ),
    ).get('MCPRemoteProxy/one')
  const gateway = planWith('primaryProviders: [corp, wiki]')
  assert.match(condition(gateway, 'Valid') ?? '', 'set disableUpstreamTokenInjection')
  assert.is(gateway?.children, 'hold')
  const planned = planWith('disableUpstreamTokenInjection: true\n    primaryProviders: [corp, wiki]')
  assert.is(condition(planned, 'Valid'), 'True ConfigValid')
  const [backend] = read(configText(planWith('primaryProviders: [wiki]'))).backends
  assert.is(backend?.credential?.upstreamInject?.providerName, 'wiki')
})

test('a server on standard input and output gets no token', () => {
  const plans = plansOfText(
    world(buildObject('MCPServer', `image: x, transport: stdio, ${OIDC}, authServerRef: {name: login}`)),
  )
  assert.is(condition(plans.get('MCPServer/one'), 'Valid'), 'True ConfigValid')
  const { backends, authServer } = parse(configText(plans.get('MCPServer/one')))
  assert.is(backends[0].credential, undefined)
  assert.ok(authServer)
})

test('an authorization server can’t be the credential of a gateway', () => {
  const gateway =
    'kind: VirtualMCPServer\nmetadata: {name: all}\nspec: {groupRef: {name: tools}, incomingAuth: {type: oidc, oidcConfigRef: {name: own, audience: a}}}\n'
  const entry =
    'kind: MCPServerEntry\nmetadata: {name: entry}\nspec: {remoteUrl: "https://b.example/mcp", transport: streamable-http, groupRef: {name: tools}, externalAuthConfigRef: {name: login}}\n'
  const member = buildObject(
    'MCPServer',
    `${KINDS.MCPServer}, groupRef: {name: tools}, ${OIDC}, externalAuthConfigRef: {name: login}`,
  )
  const plans = plansOfText(world([gateway, entry, member].join('---\n')))
  const left = condition(plans.get('VirtualMCPServer/all'), 'BackendsReady') ?? ''
  for (const who of ['MCPServer "one"', 'MCPServerEntry "entry"'])
    assert.match(left, `${who} is left out: MCPExternalAuthConfig "login" is an authorization server, not a credential`)
  assert.match(condition(plans.get('MCPServerEntry/entry'), 'Valid') ?? '', 'is an authorization server')
  assert.is(condition(plans.get('MCPServer/one'), 'Valid'), 'True ConfigValid')
})

test('the config itself reports its mistakes', () => {
  const plans = plansOfText(
    world(buildObject('MCPServer', `${KINDS.MCPServer}, ${OIDC}, authServerRef: {name: login}`)).replace(
      'issuer: https://tools.example\n',
      'issuer: https://tools.example\n    tokenLifespans: {accessTokenLifespan: 1s}\n',
    ),
  )
  const text = '/spec/embeddedAuthServer/tokenLifespans/accessTokenLifespan must be from 1m to 24h'
  assert.match(condition(plans.get('MCPExternalAuthConfig/login'), 'Valid') ?? '', text)
  assert.match(condition(plans.get('MCPServer/one'), 'ReferencesResolved') ?? '', text)
})

test('the config itself reports grants that admit more than they seem to, as its workloads do', () => {
  const readValid = (rule: string) => {
    const grants = `
    trustedIssuers:
      - issuerUrl: https://idp.example
        jwtBearerGrant:
          maxAssertionAge: 5m
          subjectRules: [{name: pods, subject: "${rule}", allowedResources: [tools]}]
`
    const plans = plansOfText(world().replace(/(\n +- \{name: wiki.*\n)/, `$1${grants}`))
    const config = plans.get('MCPExternalAuthConfig/login')
    assert.is(condition(config, 'Ready'), 'True Ready')
    return condition(config, 'GrantsValid')
  }
  assert.match(
    readValid('system:serviceaccount:a:*') ?? '',
    /^False BroadWorkload: \/spec\/embeddedAuthServer\/trustedIssuers\/0\/jwtBearerGrant\/subjectRules\/0/,
  )
  assert.is(readValid('system:serviceaccount:a:agent'), 'True GrantsValid')
  assert.is(condition(plansOfText(world()).get('MCPExternalAuthConfig/login'), 'GrantsValid'), undefined)
})

test.run()
