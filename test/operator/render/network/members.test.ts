/** Checks who may connect to a member of a gateway's group, and whose credentials other callers may use. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { condition, findChild, plansOfText } from '../../../support/operator/plans.ts'

const AROUND = `
kind: Secret
metadata: {name: keys}
stringData: {key: k}
---
kind: MCPGroup
metadata: {name: tools}
---
kind: MCPGroup
metadata: {name: others}
---
kind: MCPOIDCConfig
metadata: {name: idp}
spec: {type: inline, inline: {issuer: "https://idp.example"}}
---
kind: MCPExternalAuthConfig
metadata: {name: key}
spec: {type: headerInjection, headerInjection: {headerName: X-Key, valueSecretRef: {name: keys, key: key}}}
---
`

const gateway = (name: string, incomingAuth: string, group = 'tools') => `
kind: VirtualMCPServer
metadata: {name: ${name}}
spec: {groupRef: {name: ${group}}, incomingAuth: ${incomingAuth}}
---
`
const OIDC = '{type: oidc, oidcConfigRef: {name: idp, audience: gw}}'
const server = (more = '') => `
kind: MCPServer
metadata: {name: it}
spec: {image: "a:1", transport: streamable-http${more}}
`
const proxy = (more = '') => `
kind: MCPRemoteProxy
metadata: {name: it}
spec: {remoteUrl: "https://example.com/mcp"${more}}
`
const IN_GROUP = ', groupRef: {name: tools}'
const pods = (name: string) => ({
  podSelector: { matchLabels: { 'app.kubernetes.io/instance': name, 'app.kubernetes.io/name': 'virtualmcpserver' } },
})

const planWith = (text: string) => plansOfText(`${AROUND}${text}`)

/** Returns the peers that may connect to the public port; undefined: everybody. */
function callers(text: string, kind = 'MCPServer'): unknown {
  const policy = findChild(planWith(text).get(`${kind}/it`), 'NetworkPolicy') as unknown as {
    readonly spec: { readonly ingress: readonly { readonly from?: unknown }[] }
  }
  return policy.spec.ingress[0]?.from
}

test('a member that authenticates nobody is open only to the gateways of its group, if one of them authenticates callers', () => {
  const gateways = gateway('gw', OIDC)
  assert.equal(callers(gateways + server(IN_GROUP)), [pods('gw')])
  assert.equal(callers(gateways + proxy(IN_GROUP), 'MCPRemoteProxy'), [pods('gw')])
  assert.equal(
    callers(gateways + server(`${IN_GROUP}, transport: stdio`).replace('transport: streamable-http, ', '')),
    [pods('gw')],
  )
  assert.equal(callers(gateways + gateway('open', '{type: anonymous}') + server(IN_GROUP)), [pods('gw'), pods('open')])
  const peers = ', networkPolicy: {ingressFrom: [{podSelector: {}}]}'
  assert.equal(callers(gateways + server(IN_GROUP + peers)), [pods('gw'), { podSelector: {} }])
})

test('other members stay open', () => {
  const gateways = gateway('gw', OIDC)
  for (const [what, text] of Object.entries({
    'no group': gateways + server(),
    'another group': gateways + server(', groupRef: {name: others}'),
    'no gateway': server(IN_GROUP),
    'a gateway that asks nobody': gateway('gw', '{type: anonymous}') + server(IN_GROUP),
    'callers of its own': gateways + server(`${IN_GROUP}, oidcConfigRef: {name: idp, audience: it}`),
  }))
    assert.is(callers(text), undefined, what)
})

const openToAll = (text: string, kind: string, name = 'it') =>
  condition(planWith(text).get(`${kind}/${name}`), 'ExposureWarning')

test('a credential that every pod can use is reported', () => {
  const key = ', externalAuthConfigRef: {name: key}'
  const warning = openToAll(proxy(key), 'MCPRemoteProxy')
  assert.match(warning ?? '', /^True OpenToAll: every pod of the cluster can call this without a token.*sent to "it"/)
  const secrets = ', secrets: [{name: keys, key: key, targetEnvName: KEY}]'
  assert.match(openToAll(server(secrets), 'MCPServer') ?? '', /Secrets "keys"/)
  assert.ok(openToAll(server(key), 'MCPServer'))
  const inGroup = proxy(key + IN_GROUP)
  assert.ok(openToAll(gateway('gw', '{type: anonymous}') + inGroup, 'MCPRemoteProxy'))
  assert.ok(openToAll(`${gateway('gw', '{type: anonymous}')}${server(key + IN_GROUP)}`, 'VirtualMCPServer', 'gw'))
  const unshut = proxy(`${key}${IN_GROUP}, networkPolicy: {enabled: false}`)
  assert.ok(openToAll(gateway('gw', OIDC) + unshut, 'MCPRemoteProxy'), 'without a policy everyone is admitted')
})

test('nothing is reported if other pods are kept out, or there is no credential', () => {
  const key = ', externalAuthConfigRef: {name: key}'
  for (const [what, text] of Object.entries({
    'no credential': proxy(),
    'callers of its own': proxy(`${key}, oidcConfigRef: {name: idp, audience: it}`),
    'named peers': proxy(`${key}, networkPolicy: {ingressFrom: [{podSelector: {}}]}`),
    'behind a gateway that asks': gateway('gw', OIDC) + proxy(key + IN_GROUP),
  }))
    assert.is(openToAll(text, 'MCPRemoteProxy'), undefined, what)
  assert.is(openToAll(gateway('gw', OIDC) + server(key + IN_GROUP), 'VirtualMCPServer', 'gw'), undefined)
})

test.run()
