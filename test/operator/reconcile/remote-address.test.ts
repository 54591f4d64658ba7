/** Checks that addresses which the data plane never connects to are reported at their field. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { buildWorld, condition, context, planWorld } from '../../support/operator/plans.ts'

const group = 'kind: MCPGroup\nmetadata: {name: tools}\nspec: {}'
const kinds = {
  MCPRemoteProxy: '',
  MCPServerEntry: 'transport: streamable-http, groupRef: {name: tools}, ',
} as const
type Kind = keyof typeof kinds

const validity = (kind: Kind, url: string, more = '', planContext = context) => {
  const object = `kind: ${kind}\nmetadata: {name: it}\nspec: {${kinds[kind]}remoteUrl: "${url}"${more}}`
  return condition(planWorld(buildWorld(`${group}\n---\n${object}`), planContext).get(`${kind}/it`), 'Valid')
}

const loopback = [
  'http://127.0.0.1:8080/mcp',
  'http://127.0.0.1.:8080/mcp',
  'http://127.1/mcp',
  'http://2130706433/mcp',
  'http://0x7f.0.0.1/mcp',
  'http://0177.0.0.1/mcp',
  'http://[::1]:8080/mcp',
  'http://[0:0:0:0:0:0:0:1]/mcp',
  'http://[::ffff:127.0.0.1]/mcp',
  'http://[64:ff9b::7f00:1]/mcp',
  'http://localhost:8080/mcp',
  'http://LOCALHOST./mcp',
  'http://mcp.localhost/mcp',
]
const priv = ['http://10.0.0.5/mcp', 'http://192.168.1.1/mcp', 'http://[fd00::1]/mcp', 'http://100.64.0.1/mcp']
const never = [
  'http://169.254.169.254/mcp',
  'http://2852039166/mcp',
  'http://[fe80::1]/mcp',
  'http://[::ffff:a9fe:a9fe]/mcp',
  'http://[fd00:ec2::254]/mcp',
  'http://168.63.129.16/mcp',
  'http://0.0.0.0:8080/mcp',
  'http://0/mcp',
  'http://[::]/mcp',
  'http://224.0.0.1/mcp',
]
const fine = [
  'https://mcp.example.com/mcp',
  'https://8.8.8.8/mcp',
  'http://mcp.tools.svc.cluster.local:8080/mcp',
  'https://localhost.example.com/mcp',
  'https://127.0.0.1.nip.io/mcp',
  'https://[2606:4700::1111]/mcp',
]

for (const kind of Object.keys(kinds) as Kind[]) {
  test(`${kind}: an address that is called only if it is allowed`, () => {
    for (const url of [...loopback, ...priv]) {
      const message = validity(kind, url) ?? ''
      assert.match(message, /^False AddressRefused: \/spec\/remoteUrl: \S+ is a (loopback|private) address: /, url)
      assert.match(message, 'only under allowPrivateEndpoint', url)
      assert.not.match(message, ';', `${url}: told once`)
      assert.is(validity(kind, url, ', allowPrivateEndpoint: true'), 'True ConfigValid', url)
    }
  })

  test(`${kind}: an address that is never called`, () => {
    for (const url of never)
      for (const more of ['', ', allowPrivateEndpoint: true'])
        assert.match(validity(kind, url, more) ?? '', /^False AddressRefused: \/spec\/remoteUrl: .* never called$/, url)
  })

  test(`${kind}: names, and public addresses`, () => {
    for (const url of fine) assert.is(validity(kind, url), 'True ConfigValid', url)
  })

  test(`${kind}: portico run calls what listens on the same machine`, () => {
    const own = { ...context, isOwnMachine: true }
    for (const url of loopback) assert.is(validity(kind, url, '', own), 'True ConfigValid', url)
    for (const url of [...priv, ...never]) assert.match(validity(kind, url, '', own) ?? '', 'False AddressRefused', url)
  })
}

const issuer = (inline: string) =>
  condition(
    planWorld(buildWorld(`kind: MCPOIDCConfig\nmetadata: {name: it}\nspec: {type: inline, inline: {${inline}}}`)).get(
      'MCPOIDCConfig/it',
    ),
    'Valid',
  )

for (const [inline, expected] of [
  [
    'issuer: "https://10.0.0.5"',
    '/spec/inline/issuer 10.0.0.5 is a private address: it is called only under jwksAllowPrivateIP',
  ],
  ['issuer: "https://10.0.0.5", jwksAllowPrivateIP: true', undefined],
  ['issuer: "https://169.254.169.254", jwksAllowPrivateIP: true', '/spec/inline/issuer 169.254.169.254 is a reserved'],
  [
    'issuer: "https://i.example", jwksUrl: "https://127.0.0.1/keys"',
    '/spec/inline/jwksUrl 127.0.0.1 is a loopback address',
  ],
  // With a separate `jwksUrl` the issuer is only a name; an issuer on this machine may have its keys there.
  ['issuer: "https://10.0.0.5", jwksUrl: "https://i.example/keys"', undefined],
  ['issuer: "http://localhost:1", jwksUrl: "http://127.0.0.1:1/keys"', undefined],
] as const)
  test(`MCPOIDCConfig: {${inline}}`, () => {
    if (expected === undefined) assert.is(issuer(inline), 'True ConfigValid')
    else assert.ok(issuer(inline)?.startsWith(`False ConfigInvalid: ${expected}`), issuer(inline))
  })

test.run()
