import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { configText, findChild, type Plans, plansOfText } from '../../support/operator/plans.ts'

/**
 * Plans servers and credentials to test which credential of a backend has precedence; `own` is the one that `named`
 * refers to itself.
 */
const plansFor = (outgoingAuth: string): Plans =>
  plansOfText(`
kind: MCPGroup
metadata: {name: tools}
---
kind: VirtualMCPServer
metadata: {name: gateway}
spec:
  groupRef: {name: tools}
  incomingAuth: {type: anonymous}
  outgoingAuth: ${outgoingAuth}
---
kind: MCPServer
metadata: {name: named}
spec: {image: x, transport: streamable-http, groupRef: {name: tools}, externalAuthConfigRef: {name: own}}
---
kind: MCPServer
metadata: {name: silent}
spec: {image: x, transport: streamable-http, groupRef: {name: tools}}
---
kind: MCPRemoteProxy
metadata: {name: remote}
spec: {remoteUrl: "https://a.example/mcp", groupRef: {name: tools}, externalAuthConfigRef: {name: token}}
---
kind: MCPServerEntry
metadata: {name: entry}
spec:
  remoteUrl: https://b.example/mcp
  transport: streamable-http
  groupRef: {name: tools}
  externalAuthConfigRef: {name: token}
  headerForward: {addPlaintextHeaders: {authorization: mine, X-Other: o}}
---
kind: MCPExternalAuthConfig
metadata: {name: own}
spec: {type: headerInjection, headerInjection: {headerName: X-Own, valueSecretRef: {name: s, key: own}}}
---
kind: MCPExternalAuthConfig
metadata: {name: token}
spec: {type: bearerToken, bearerToken: {tokenSecretRef: {name: s, key: token}}}
---
kind: MCPExternalAuthConfig
metadata: {name: listed}
spec: {type: headerInjection, headerInjection: {headerName: X-Listed, valueSecretRef: {name: s, key: listed}}}
---
kind: MCPExternalAuthConfig
metadata: {name: nothing}
spec: {type: unauthenticated}
---
kind: Secret
metadata: {name: s}
stringData: {own: a, token: b, listed: c}
`)

const parseConfig = (plans: Plans, name: string) => parse(configText(plans.get(name))) as GatewayConfig

/** Returns the headers that each backend of the gateway gets from files. */
const credentials = (outgoingAuth: string) =>
  Object.fromEntries(
    parseConfig(plansFor(outgoingAuth), 'VirtualMCPServer/gateway').backends.map(({ name, headerFiles = [] }) => [
      name,
      headerFiles.map(({ name: header, file, prefix = '' }) => `${header}: ${prefix}${file}`).join(),
    ]),
  )

const OWN = 'X-Own: ../secrets/s/own'
const TOKEN = 'Authorization: Bearer ../secrets/s/token'
const LISTED = 'X-Listed: ../secrets/s/listed'
const list = (name: string) => `{type: externalAuthConfigRef, externalAuthConfigRef: {name: ${name}}}`

test('rule 1: under discovered each backend has the credential that it names, or none', () => {
  assert.equal(credentials('{source: discovered}'), { entry: TOKEN, named: OWN, remote: TOKEN, silent: '' })
})

test('under discovered an entry overrides the discovered credential, by another one or by none', () => {
  const backends = `{named: ${list('listed')}, entry: ${list('nothing')}, silent: ${list('listed')}}`
  assert.equal(credentials(`{source: discovered, backends: ${backends}}`), {
    entry: '',
    named: LISTED,
    remote: TOKEN,
    silent: LISTED,
  })
})

test('rule 2: under inline only listed backends have a credential, whatever others name', () => {
  assert.equal(credentials(`{source: inline, backends: {silent: ${list('listed')}}}`), {
    entry: '',
    named: '',
    remote: '',
    silent: LISTED,
  })
})

test('a default applies to backends without another setting', () => {
  assert.equal(credentials(`{source: inline, default: ${list('listed')}, backends: {named: {type: discovered}}}`), {
    entry: LISTED,
    named: OWN,
    remote: LISTED,
    silent: LISTED,
  })
  assert.is(credentials(`{source: discovered, default: ${list('listed')}}`)['silent'], LISTED)
  assert.is(credentials(`{source: discovered, default: ${list('listed')}}`)['named'], OWN)
})

test('a credential replaces a configured header of its name, in any case', () => {
  const { backends } = parseConfig(plansFor('{source: discovered}'), 'VirtualMCPServer/gateway')
  assert.equal(backends.find(({ name }) => name === 'entry')?.headers, { 'X-Other': 'o' })
})

test('a proxy forwards the credentials of its group’s gateways, and sends its own outside a group', () => {
  const plans = plansFor('{source: inline, backends: {silent: LISTED}}'.replace('LISTED', list('listed')))
  const findBackend = (name: string) => parseConfig(plans, name).backends[0]
  const buildForwarded = (...headerNames: string[]) => ({ type: 'forwarded', forwarded: { headerNames } })
  assert.equal(findBackend('MCPServer/silent')?.credential, buildForwarded('Authorization', 'X-Listed'))
  assert.equal(findBackend('MCPServer/named')?.credential, buildForwarded('Authorization'))
  assert.is(findBackend('MCPServer/named')?.headerFiles, undefined)
  const discovered = parseConfig(plansFor('{source: discovered}'), 'MCPServer/named').backends[0]
  assert.equal(discovered?.credential, buildForwarded('Authorization', 'X-Own'))
  assert.equal(findBackend('MCPRemoteProxy/remote')?.headerFiles, [
    { name: 'Authorization', file: '../secrets/s/token', prefix: 'Bearer ' },
  ])
  assert.is(findBackend('MCPRemoteProxy/remote')?.credential, undefined)
})

test('a proxy without a group sends its own credential; one that authenticates callers forwards nothing', () => {
  const plans = plansOfText(`
kind: MCPServer
metadata: {name: alone}
spec: {image: x, transport: streamable-http, externalAuthConfigRef: {name: token}}
---
kind: MCPServer
metadata: {name: guarded}
spec: {image: x, transport: streamable-http, oidcConfigRef: {name: idp, audience: a}}
---
kind: MCPServer
metadata: {name: speaking}
spec: {image: x, transport: stdio}
---
kind: MCPOIDCConfig
metadata: {name: idp}
spec: {type: inline, inline: {issuer: "https://idp.example"}}
---
kind: MCPExternalAuthConfig
metadata: {name: token}
spec: {type: bearerToken, bearerToken: {tokenSecretRef: {name: s, key: token}}}
---
kind: Secret
metadata: {name: s}
stringData: {token: a}
`)
  const findBackend = (name: string) => parseConfig(plans, name).backends[0]
  assert.equal(findBackend('MCPServer/alone')?.headerFiles, [
    { name: 'Authorization', file: '../secrets/s/token', prefix: 'Bearer ' },
  ])
  for (const name of ['alone', 'guarded', 'speaking'])
    assert.is(findBackend(`MCPServer/${name}`)?.credential, undefined, name)
})

test('the gateway mounts the keys of Secrets that it reads, and rendered objects contain no value', () => {
  const plans = plansFor('{source: discovered}')
  const text = JSON.stringify(findChild(plans.get('VirtualMCPServer/gateway'), 'Deployment'))
  for (const key of ['own', 'token']) assert.match(text, `{"key":"${key}","path":"${key}"}`)
  assert.not.match(text, '"listed"')
})

test('the status names the credential in force', () => {
  const { status } = plansFor('{source: discovered}').get('VirtualMCPServer/gateway') ?? {}
  const { discoveredBackends } = status as unknown as {
    discoveredBackends: { name: string; authConfigRef?: string; authType?: string }[]
  }
  assert.equal(
    discoveredBackends.map(({ name, authConfigRef, authType }) => [name, authConfigRef, authType]),
    [
      ['entry', 'token', 'bearerToken'],
      ['named', 'own', 'headerInjection'],
      ['remote', 'token', 'bearerToken'],
      ['silent', undefined, undefined],
    ],
  )
})

test('an exchange reaches the gateway with every field, and its secret as a file', () => {
  const plans = plansOfText(`
kind: MCPGroup
metadata: {name: tools}
---
kind: VirtualMCPServer
metadata: {name: gateway}
spec: {groupRef: {name: tools}, incomingAuth: {type: oidc, audience: g, oidcConfigRef: {name: idp}}}
---
kind: MCPOIDCConfig
metadata: {name: idp}
spec: {type: inline, inline: {issuer: "https://idp.example"}}
---
kind: MCPServerEntry
metadata: {name: entry}
spec:
  remoteUrl: https://b.example/mcp
  transport: streamable-http
  groupRef: {name: tools}
  externalAuthConfigRef: {name: exchange}
  headerForward: {addPlaintextHeaders: {x-token: mine}}
---
kind: MCPExternalAuthConfig
metadata: {name: exchange}
spec:
  type: tokenExchange
  tokenExchange:
    tokenUrl: https://idp.example/token
    audience: api
    clientId: c
    clientSecretRef: {name: s, key: secret}
    scopes: [read]
    subjectTokenType: jwt
    externalTokenHeaderName: X-Token
---
kind: Secret
metadata: {name: s}
stringData: {secret: a}
`)
  assert.equal(parseConfig(plans, 'VirtualMCPServer/gateway').backends, [
    {
      name: 'entry',
      url: 'https://b.example/mcp',
      allowPrivateIP: false,
      credential: {
        type: 'tokenExchange',
        tokenExchange: {
          tokenUrl: 'https://idp.example/token',
          audience: 'api',
          clientId: 'c',
          clientSecretFile: '../secrets/s/secret',
          scopes: ['read'],
          subjectTokenType: 'jwt',
          headerName: 'X-Token',
        },
      },
    },
  ])
})

test.run()
