import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { temporaryFolder } from '../../support/folder.ts'
import { postModern } from '../../support/gateway/post.ts'
import { freePort } from '../../support/network/free-port.ts'
import { RunningPortico } from '../../support/operator/running-portico.ts'
import { registryFile, server } from '../../support/registry/registry.ts'
import { answer, OK_RESULT, startRawServer, tool } from '../../support/servers/raw-server.ts'

const { path: folder } = temporaryFolder()

test('on a laptop a registry of the same manifests decides which members a gateway shows', async () => {
  const backend = await startRawServer({
    era: 'modern',
    tools: [tool('t')],
    call: (request) => answer(request, OK_RESULT),
  })
  const [registryPort, gatewayPort] = [await freePort(), await freePort()]
  const remotes = [{ type: 'streamable-http', url: backend.url.replace('127.0.0.1', '127.0.0.1.') }]
  writeFileSync(join(folder, 'catalog.json'), registryFile([{ ...server('com.example/notes'), remotes }]))
  const object = (kind: string, name: string, spec: object, annotations: object = {}) => ({
    ...{ apiVersion: 'portico.dev/v1beta1', kind, metadata: { name, namespace: 'default', annotations }, spec },
  })
  const entry = (name: string, path: string) =>
    object('MCPServerEntry', name, {
      ...{ remoteUrl: `${backend.url}${path}`, transport: 'streamable-http', groupRef: { name: 'tools' } },
    })
  const items = [
    object('MCPGroup', 'tools', {}),
    entry('notes', ''),
    entry('stray', '?another'),
    object(
      'MCPRegistry',
      'catalog',
      {
        sources: [{ name: 'house', file: { path: join(folder, 'catalog.json') } }],
        registries: [{ name: 'main', sources: ['house'] }],
        auth: { mode: 'anonymous' },
      },
      { 'portico.dev/local-port': String(registryPort) },
    ),
    object(
      'VirtualMCPServer',
      'tools',
      {
        groupRef: { name: 'tools' },
        incomingAuth: { type: 'anonymous' },
        config: {
          catalogGate: {
            mode: 'enforce',
            registries: [
              { name: 'house', registryRef: { name: 'catalog' }, registry: 'main', serviceAccountAudience: 'a' },
            ],
          },
        },
      },
      { 'portico.dev/local-port': String(gatewayPort) },
    ),
  ]
  writeFileSync(join(folder, 'manifests.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items }))
  const portico = new RunningPortico([
    join(folder, 'manifests.json'),
    '--state',
    join(folder, 'state'),
    '--console',
    'off',
  ])
  try {
    const { problems } = await portico.report('the gate is told', (report) =>
      report.problems.some(({ reason }) => reason === 'MembersWithheld'),
    )
    const problem = problems.find(({ reason }) => reason === 'MembersWithheld')
    assert.is(problem?.name, 'tools')
    assert.is(problem?.message, '1 not approved: "stray": NotInCatalog')
    const { text } = await postModern(`http://127.0.0.1:${gatewayPort}/mcp`, 'tools/list')
    assert.match(text, '"notes_t"')
    assert.not.match(text, 'stray')
  } finally {
    await portico.stop()
    await backend.close()
  }
})

test.run()
