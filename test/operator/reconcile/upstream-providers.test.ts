/** Checks that credentials from an upstream provider's tokens need a gateway that logs users in at that provider. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import { DEFAULT_GROUP, formatApiVersion, validateObject } from '../../../crds/index.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { providerProblem } from '../../../operator/reconcile/rendering/backend.ts'
import { configText, plansOfText } from '../../support/operator/plans.ts'

const world = `
kind: MCPGroup
metadata: {name: tools}
---
kind: MCPOIDCConfig
metadata: {name: idp}
spec: {type: inline, inline: {issuer: "https://idp.example"}}
---
kind: VirtualMCPServer
metadata: {name: gateway}
spec: {groupRef: {name: tools}, incomingAuth: {type: oidc, audience: g, oidcConfigRef: {name: idp}}}
---
kind: MCPServerEntry
metadata: {name: injected}
spec: {remoteUrl: "https://b.example/mcp", transport: streamable-http, groupRef: {name: tools}, externalAuthConfigRef: {name: inject}}
---
kind: MCPServerEntry
metadata: {name: exchanged}
spec: {remoteUrl: "https://b.example/mcp", transport: streamable-http, groupRef: {name: tools}, externalAuthConfigRef: {name: exchange}}
---
kind: MCPServerEntry
metadata: {name: open}
spec: {remoteUrl: "https://b.example/mcp", transport: streamable-http, groupRef: {name: tools}}
---
kind: MCPRemoteProxy
metadata: {name: proxy}
spec: {remoteUrl: "https://b.example/mcp", oidcConfigRef: {name: idp, audience: a}, externalAuthConfigRef: {name: inject}}
---
kind: MCPExternalAuthConfig
metadata: {name: inject}
spec: {type: upstreamInject, upstreamInject: {providerName: github}}
---
kind: MCPExternalAuthConfig
metadata: {name: exchange}
spec: {type: tokenExchange, tokenExchange: {tokenUrl: "https://idp.example/token", subjectProviderName: gitlab}}
`

test('a backend whose credential comes from no login is left out with the reason; the others are served', () => {
  const plans = plansOfText(world)
  const { status, children } = plans.get('VirtualMCPServer/gateway') ?? {}
  const ready = status?.conditions.find(({ type }) => type === 'BackendsReady')
  assert.is(ready?.status, 'False')
  assert.match(
    ready?.message ?? '',
    'tokens of the provider "github" need an authorization server that logs users in there: set authServerConfig',
  )
  assert.match(
    ready?.message ?? '',
    'tokens of the provider "gitlab" need an authorization server that logs users in there: set authServerConfig',
  )
  assert.ok(children?.length)
  const { backends } = parse(configText(plans.get('VirtualMCPServer/gateway'))) as GatewayConfig
  assert.equal(
    backends.map(({ name }) => name),
    ['open'],
  )
  for (const name of ['inject', 'exchange']) {
    const config = plans.get(`MCPExternalAuthConfig/${name}`)?.status.conditions.find(({ type }) => type === 'Ready')
    assert.is(config?.status, 'True', name)
  }
})

test('a proxy logs nobody in: it can’t have such a credential', () => {
  const valid = plansOfText(world)
    .get('MCPRemoteProxy/proxy')
    ?.status.conditions.find(({ type }) => type === 'Valid')
  assert.is(valid?.status, 'False')
  assert.is(valid?.reason, 'CredentialUnusable')
  assert.match(
    valid?.message ?? '',
    'tokens of the provider "github" need an authorization server that logs users in there: set authServerConfig',
  )
})

test('the provider of a credential must be one at which users log in', () => {
  assert.is(providerProblem('github', ['gitlab', 'github']), undefined)
  assert.match(providerProblem('githu', ['github']) ?? '', 'no upstream provider "githu"')
  assert.match(providerProblem('github', []) ?? '', 'no upstream provider')
})

test('the name of a provider is a DNS label', () => {
  const findings = (providerName: string) =>
    validateObject(
      {
        apiVersion: formatApiVersion(DEFAULT_GROUP),
        kind: 'MCPExternalAuthConfig',
        metadata: { name: 'inject' },
        spec: { type: 'upstreamInject', upstreamInject: { providerName } },
      },
      DEFAULT_GROUP,
    )
  assert.equal(findings('a'.repeat(63)), [])
  for (const name of ['', 'a'.repeat(64), 'Git', 'git_hub', '-git', 'git-', 'git.hub', 'git hub'])
    assert.is(findings(name)[0]?.pointer, '/spec/upstreamInject/providerName', name)
})

test.run()
