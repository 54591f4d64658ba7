/** Checks how each kind that verifies tokens reads its DPoP settings, and their conditions. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse, stringify } from 'yaml'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import type { Plan } from '../../../operator/reconcile/index.ts'
import { condition, configText, plansOfText } from '../../support/operator/plans.ts'

const WORLD = `
---
kind: MCPGroup
metadata: {name: tools}
spec: {}
---
kind: MCPOIDCConfig
metadata: {name: idp}
spec: {type: inline, inline: {issuer: "https://idp.example"}}
`

const REDIS = { sessionStorage: { provider: 'redis', address: 'redis:6379' } }

const planFor = (kind: string, spec: object): Plan | undefined =>
  plansOfText(stringify({ kind, metadata: { name: 'it' }, spec }) + WORLD).get(`${kind}/it`)

/** The spec of each kind with a block of DPoP settings, and the path of that block. */
const KINDS: Readonly<Record<string, { readonly at: string; spec(dpop: object, more?: object): object }>> = {
  VirtualMCPServer: {
    at: '/spec/incomingAuth/dpop',
    spec: (dpop, more) => ({
      groupRef: { name: 'tools' },
      incomingAuth: { type: 'oidc', oidcConfigRef: { name: 'idp', audience: 'a' }, dpop },
      ...more,
    }),
  },
  MCPServer: {
    at: '/spec/oidcConfigRef/dpop',
    spec: (dpop, more) => ({
      image: 'x',
      transport: 'streamable-http',
      oidcConfigRef: { name: 'idp', audience: 'a', dpop },
      ...more,
    }),
  },
  MCPRemoteProxy: {
    at: '/spec/oidcConfigRef/dpop',
    spec: (dpop, more) => ({
      remoteUrl: 'https://example.com/mcp',
      oidcConfigRef: { name: 'idp', audience: 'a', dpop },
      ...more,
    }),
  },
}

for (const [kind, { at, spec }] of Object.entries(KINDS)) {
  test(`${kind}: the block reaches the data plane, and ProofReady shows it`, () => {
    const plan = planFor(kind, spec({ algs: ['ES256'], maxAge: '60s' }))
    const { incomingAuth } = parse(configText(plan)) as GatewayConfig
    assert.equal(incomingAuth.dpop, { mode: 'optional', algs: ['ES256'], maxAge: '60s', nonce: 'disabled' })
    assert.match(condition(plan, 'ProofReady') ?? '', /^True /)
    assert.is(condition(planFor(kind, spec({ mode: 'disabled' })), 'ProofReady'), undefined)
  })

  test(`${kind}: shared replay protection needs Redis, and is not served without`, () => {
    const plan = planFor(kind, spec({ replay: 'shared' }))
    assert.match(condition(plan, 'ProofReady') ?? '', /^False ReplayNotShared: /)
    assert.ok(condition(plan, 'ProofReady')?.includes(`${at}/replay: shared needs Redis`))
    assert.match(condition(plan, 'Ready') ?? '', /^False ReplayNotShared/)
    assert.is(plan?.children, 'hold')
    const cured = planFor(kind, spec({ replay: 'shared' }, REDIS))
    assert.match(condition(cured, 'ProofReady') ?? '', /^True /)
    assert.not.equal(cured?.children, 'hold')
  })
}

const AUTH_SERVER = {
  issuer: 'https://gw.example',
  dpop: { mode: 'optional' },
  upstreamProviders: [
    {
      name: 'corp',
      type: 'oidc',
      oidcConfig: { issuerUrl: 'https://corp.example', clientId: 'c', clientSecretRef: { name: 's', key: 'k' } },
    },
  ],
}
const OWN = `
---
kind: MCPOIDCConfig
metadata: {name: own}
spec: {type: inline, inline: {issuer: "https://gw.example"}}
---
kind: MCPExternalAuthConfig
metadata: {name: login}
spec: {type: embeddedAuthServer, embeddedAuthServer: ${JSON.stringify(AUTH_SERVER)}}
---
kind: Secret
metadata: {name: s}
stringData: {k: x}
`

test('a warning says that the authorization server binds tokens but the endpoint reads no proofs', () => {
  const oidc = { name: 'own', audience: 'a' }
  const bound: Readonly<Record<string, (dpop?: object) => object>> = {
    VirtualMCPServer: (dpop) => ({
      groupRef: { name: 'tools' },
      incomingAuth: { type: 'oidc', oidcConfigRef: oidc, ...(dpop && { dpop }) },
      authServerConfig: AUTH_SERVER,
    }),
    MCPRemoteProxy: (dpop) => ({
      remoteUrl: 'https://example.com/mcp',
      oidcConfigRef: { ...oidc, ...(dpop && { dpop }) },
      authServerRef: { name: 'login' },
    }),
    MCPServer: (dpop) => ({
      image: 'x',
      transport: 'streamable-http',
      oidcConfigRef: { ...oidc, ...(dpop && { dpop }) },
      authServerRef: { name: 'login' },
    }),
  }
  for (const [kind, spec] of Object.entries(bound)) {
    const plan = (dpop?: object) =>
      plansOfText(stringify({ kind, metadata: { name: 'it' }, spec: spec(dpop) }) + WORLD + OWN).get(`${kind}/it`)
    for (const dpop of [undefined, { mode: 'disabled' }]) {
      const warning = condition(plan(dpop), 'ProofWarning') ?? ''
      assert.ok(warning.startsWith(`True ProofsNotRead: ${KINDS[kind]?.at} is not on`), `${kind}: ${warning}`)
      assert.is(condition(plan(dpop), 'Valid'), 'True ConfigValid', kind)
    }
    assert.is(condition(plan({}), 'ProofWarning'), undefined)
    assert.match(condition(plan({}), 'ProofReady') ?? '', /^True /)
  }
})

test.run()
