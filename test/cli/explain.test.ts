import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { request } from 'undici'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { dispatch } from '../../cli/dispatch.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startGateway } from '../support/gateway/gateway.ts'
import { startMcpServer } from '../support/servers/dual-server.ts'

const POLICIES = [
  '@id("engineers")\npermit(principal in Group::"eng", action == Action::"call_tool", resource);',
  '@id("no-prod") forbid(principal, action, resource) when { context has arg_env && context.arg_env == "prod" };',
  'permit(principal, action == Action::"read_resource", resource) when { resource.uri like "docs://*" };',
]
const { path: folder } = temporaryFolder()
const manifests = join(folder, 'manifests.json')
const caller = join(folder, 'caller.json')
writeFileSync(caller, JSON.stringify({ sub: 'eve', groups: ['eng'] }))
writeFileSync(
  manifests,
  JSON.stringify({
    apiVersion: 'portico.dev/v1beta1',
    kind: 'MCPServer',
    metadata: { name: 'files', namespace: 'default' },
    spec: {
      image: 'x',
      transport: 'streamable-http',
      authzConfig: { type: 'inline', inline: { policies: POLICIES } },
    },
  }),
)

async function explain(...argv: string[]) {
  let out = ''
  let err = ''
  const io = {
    out: (text: string) => void (out += text),
    err: (line: string) => void (err += `${line}\n`),
    env: {},
    stop: AbortSignal.abort(),
  }
  return { code: await dispatch(['explain', ...argv], io), out, err }
}

test('explain names the policy that permits an allowed call', async () => {
  const { code, out } = await explain(manifests, '--caller', caller, '--tool', 'read_file')
  assert.is(
    out,
    `MCPServer default/files: allowed: a policy permits it, and none forbids it
  permit: policies/0 (engineers): permit(principal in Group::"eng", action == Action::"call_tool", resource);
`,
  )
  assert.is(code, 0)
})

test('explain names the policy that forbids a denied call, or says that none permits it', async () => {
  const forbidden = await explain(manifests, '--caller', caller, '--tool', 'x', '--arguments', '{"env":"prod"}')
  assert.is(forbidden.code, 1)
  assert.match(forbidden.out, /denied: a policy forbids it\n {2}forbid: policies\/1 \(no-prod\): /)
  const nobody = await explain(manifests, '--tool', 'x')
  assert.is(nobody.code, 1)
  assert.match(nobody.out, /denied: no policy permits it\n$/)
})

test('explain answers for resources, and as JSON', async () => {
  const { out } = await explain(manifests, '--resource', 'docs://a', '--output', 'json')
  const [found] = JSON.parse(out)
  assert.is(found.allowed, true)
  assert.is(found.policies[0].policy, 'policies/2')
})

test('explain names what a tool needs of its caller, and where to get it', async () => {
  const keys = join(import.meta.dirname, '../../samples/keys')
  const { code, out } = await explain(keys, '--tool', 'tickets_mine')
  assert.is(
    out,
    `VirtualMCPServer default/desk: allowed: no policies are in force
  login: a token with the scopes desk:use, of http://127.0.0.1:4483
  key: the caller’s own for Tickets, entered at http://127.0.0.1:4483/oauth/key?provider=tickets
`,
  )
  assert.is(code, 0)
  const { needs } = JSON.parse((await explain(keys, '--tool', 't', '--backend', 'tickets', '--output', 'json')).out)[0]
  assert.equal(needs, [
    { kind: 'login', scopes: ['desk:use'], links: ['http://127.0.0.1:4483'] },
    {
      kind: 'key',
      backend: 'tickets',
      provider: 'tickets',
      title: 'Tickets',
      links: ['http://127.0.0.1:4483/oauth/key?provider=tickets'],
    },
  ])
  assert.match((await explain(keys, '--tool', 'other')).err, 'no object in these files has policies')
})

test('wrong usage', async () => {
  writeFileSync(join(folder, 'nobody.json'), '{"groups": []}')
  const wrong = [
    [manifests],
    [manifests, '--tool', 'a', '--prompt', 'b'],
    [manifests, '--tool', 'a', '--arguments', '{'],
    [manifests, '--tool', 'a', '--arguments', '[]'],
    [manifests, '--tool', 'a', '--caller', join(folder, 'nobody.json')],
    ['--tool', 'a'],
  ]
  for (const argv of wrong) assert.is((await explain(...argv)).code, 2, argv.join(' '))
  assert.is((await explain(manifests, '--tool', 'a', '--caller', join(folder, 'none.json'))).code, 1)
})

test('a running gateway explains on its admin listener', async () => {
  const backend = await startMcpServer({ name: 'b' })
  const gateway = await startGateway({ backends: [{ name: 'b', url: backend.url }], authz: { policies: POLICIES } })
  try {
    await fetch(gateway.url)
    const ask = async (body: string, type = 'application/json') => {
      const init = { method: 'POST', headers: { 'content-type': type }, body }
      const response = await fetch(`${gateway.adminUrl}/explain`, init)
      return {
        status: response.status,
        json: (await response.json()) as { allowed: boolean; policies: [{ id: string }] },
      }
    }
    const allowed = await ask(JSON.stringify({ caller: { sub: 'eve', groups: ['eng'] }, tool: 'b_echo' }))
    assert.is(allowed.json.allowed, true)
    assert.is(allowed.json.policies[0].id, 'engineers')
    const denied = await ask('{"tool":"none"}')
    assert.equal(denied.json, {
      allowed: false,
      reason: 'no policy permits it',
      policies: [],
      errors: [],
      exists: false,
    })
    const wrong = [
      '{',
      '[]',
      '{}',
      '{"tool":1}',
      '{"tool":"a","prompt":"b"}',
      '{"tool":"a","caller":{}}',
      '{"tool":"a","caller":[]}',
      '{"tool":"a","arguments":[]}',
      '{"tool":"a","other":1}',
    ]
    for (const body of wrong) assert.is((await ask(body)).status, 400, body)
    assert.is((await ask('{"tool":"a"}', 'text/plain')).status, 415)
    for (const [origin, status] of [
      ['http://evil.example:8081', 403],
      ['null', 403],
      ['http://localhost:3000', 200],
    ] as const) {
      const headers = { 'content-type': 'application/json', origin, host: 'evil.example:8081' }
      const init = { method: 'POST', headers, body: '{"tool":"a"}' } as const
      assert.is((await request(`${gateway.adminUrl}/explain`, init)).statusCode, status, origin)
    }
    assert.is((await ask(`{"tool":"${'a'.repeat(70_000)}"}`)).status, 413)
  } finally {
    await gateway.close()
    await backend.close()
  }
})

test('explain distinguishes what the catalog hides from what policies deny', async () => {
  const gated = join(folder, 'gated.json')
  const gate = join(folder, 'gate.json')
  const object = (kind: string, name: string, spec: object) => ({
    ...{ apiVersion: 'portico.dev/v1beta1', kind },
    ...{ metadata: { name, namespace: 'default' }, spec },
  })
  const entry = (name: string) =>
    object('MCPServerEntry', name, {
      ...{ remoteUrl: `https://${name}.example.com/mcp`, transport: 'streamable-http', groupRef: { name: 'tools' } },
    })
  const registries = [{ name: 'house', url: 'https://registry.example.com', registry: 'main' }]
  const items = [
    object('MCPGroup', 'tools', {}),
    entry('notes'),
    entry('stray'),
    object('VirtualMCPServer', 'tools', {
      groupRef: { name: 'tools' },
      incomingAuth: {
        type: 'anonymous',
        authzConfig: {
          type: 'inline',
          inline: { policies: ['permit(principal, action, resource == Tool::"notes_read");'] },
        },
      },
      config: { catalogGate: { mode: 'enforce', registries } },
    }),
  ]
  writeFileSync(gated, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }))
  const servers = [
    {
      ...{ name: 'com.example/notes', version: '1', status: 'active', claims: { team: 'a' } },
      remotes: [{ url: 'https://NOTES.example.com:443/mcp' }],
    },
  ]
  writeFileSync(gate, JSON.stringify({ revision: 'r', mode: 'full', claims: {}, servers }))
  const ask = async (tool: string, claims: object) => {
    writeFileSync(caller, JSON.stringify({ sub: 'eve', ...claims }))
    return explain(gated, '--caller', caller, '--tool', tool, '--registry', gate)
  }
  const yes = await ask('notes_read', { team: 'a' })
  assert.is(yes.code, 0, yes.err)
  assert.match(yes.out, '  catalog: allowed: entry com.example/notes of registry of the file\n  policies: allowed: ')
  const other = await ask('notes_write', { team: 'a' })
  assert.is(other.code, 1)
  assert.match(other.out, '  catalog: allowed: ')
  assert.match(other.out, '  policies: denied: ')
  const lacking = await ask('notes_read', { team: 'b' })
  assert.is(lacking.code, 1)
  assert.match(lacking.out, 'denied: the catalog does not show it: the caller lacks claims')
  assert.match(lacking.out, '  policies: allowed: ')
  const stray = await ask('stray_read', { team: 'a' })
  assert.match(stray.out, '  catalog: denied: NotInCatalog\n  policies: denied: ')
  assert.is((await ask('read', {})).code, 2)
  writeFileSync(gate, '{}')
  assert.is((await ask('notes_read', {})).code, 2)
})

test.run()
