/** Checks that a manifest is refused at its own field if `portico serve` would refuse the file that is rendered from it. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { condition, plansOfText } from '../../support/operator/plans.ts'

const SECRET = 'kind: Secret\nmetadata: {name: secret}\nstringData: {key: v}'
const KEY = '{name: secret, key: key}'
const GROUP = 'kind: MCPGroup\nmetadata: {name: tools}'

/** Returns an authorization server with a further field `more`, and `provider` in its OpenID Connect provider. */
const authServer = ({ more = '', provider = '' }) => `{issuer: https://as.example.com, ${more}
  upstreamProviders: [{name: corp, type: oidc, oidcConfig:
    {issuerUrl: https://idp.example.com, clientId: c, clientSecretRef: ${KEY}, ${provider}}}]}`

const buildEmbedded = (settings: Parameters<typeof authServer>[0]) =>
  `kind: MCPExternalAuthConfig\nmetadata: {name: it}\nspec: {type: embeddedAuthServer, embeddedAuthServer: ${authServer(settings)}}`
const credential = (type: string, fields: string) =>
  `kind: MCPExternalAuthConfig\nmetadata: {name: it}\nspec: {type: ${type}, ${type}: {${fields}}}`
const awsSts = (field: string) =>
  credential('awsSts', `region: eu-west-1, fallbackRoleArn: "arn:aws:iam::123456789012:role/a", ${field}`)
const gateway = (spec: string) =>
  `${GROUP}\n---\nkind: VirtualMCPServer\nmetadata: {name: it}\nspec: {groupRef: {name: tools}, incomingAuth: {type: anonymous}, ${spec}}`

const cases: readonly (readonly [manifest: string, pointer: string])[] = [
  [
    buildEmbedded({ provider: 'scopes: ["op en"]' }),
    '/spec/embeddedAuthServer/upstreamProviders/0/oidcConfig/scopes/0',
  ],
  [
    buildEmbedded({ more: `delegateClients: [{clientId: "my agent", clientSecretRef: ${KEY}, audiences: [x]}],` }),
    '/spec/embeddedAuthServer/delegateClients/0/clientId',
  ],
  [
    buildEmbedded({
      more: `delegateClients: [{clientId: a, clientSecretRef: ${KEY}, audiences: [x], scopes: ["a b"]}],`,
    }),
    '/spec/embeddedAuthServer/delegateClients/0/scopes/0',
  ],
  [awsSts('service: ""'), '/spec/awsSts/service'],
  [awsSts('roleClaim: ""'), '/spec/awsSts/roleClaim'],
  [
    credential('tokenExchange', 'tokenUrl: "https://idp.example.com/t", externalTokenHeaderName: ""'),
    '/spec/tokenExchange/externalTokenHeaderName',
  ],
  [credential('headerInjection', `headerName: "", valueSecretRef: ${KEY}`), '/spec/headerInjection/headerName'],
  [
    gateway(
      'config: {optimizer: {embeddingService: "https://e.example.com", embeddingProvider: openai, embeddingModel: ""}}',
    ),
    '/spec/config/optimizer/embeddingModel',
  ],
]

for (const [manifest, pointer] of cases)
  test(`${pointer} is refused at its own field`, () => {
    const plans = plansOfText(`${SECRET}\n---\n${manifest}`)
    const [plan] = [...plans].filter(([name]) => name.endsWith('/it')).map(([, plan]) => plan)
    assert.match(condition(plan, 'Valid') ?? '', new RegExp(`^False ConfigInvalid: (.*; )?${pointer} `))
  })

test('a workload whose config would be refused names the config and its field, and is not rendered', () => {
  const plans = plansOfText(`${SECRET}
---
${awsSts('service: ""')}
---
kind: MCPRemoteProxy
metadata: {name: proxy}
spec: {remoteUrl: https://a.example/mcp, oidcConfigRef: {name: inline, audience: a}, externalAuthConfigRef: {name: it}}
---
kind: MCPOIDCConfig
metadata: {name: inline}
spec: {type: inline, inline: {issuer: https://idp.example.com}}`)
  const message = condition(plans.get('MCPRemoteProxy/proxy'), 'ReferencesResolved')
  assert.match(message ?? '', /^False ReferenceInvalid: MCPExternalAuthConfig "it": \/spec\/awsSts\/service /)
})

test.run()
