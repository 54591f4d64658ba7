/** Runs the sample of tool search and sends the queries of its README. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { linkPackages, temporaryFolder } from '../support/folder.ts'
import { ownHost } from '../support/gateway/own-host.ts'
import { postModern } from '../support/gateway/post.ts'
import { startEmbeddingService } from '../support/network/embedding-service.ts'
import { RunningPortico } from '../support/operator/running-portico.ts'

const root = join(import.meta.dirname, '../..')
const commands = [...readFileSync(join(root, 'samples/tool-search/README.md'), 'utf8').matchAll(/^npx .*$/gm)].map(
  String,
)

test('the README’s three commands list two tools, find one and call it', async () => {
  const folder = temporaryFolder()
  const portico = new RunningPortico(['samples/tool-search', '--host', ownHost, '--state', `${folder.path}/state`])
  try {
    const { endpoints } = await portico.ready()
    const url = endpoints.find(({ kind }) => kind === 'VirtualMCPServer')?.url ?? ''
    const env = {
      ...process.env,
      PATH: [dirname(process.execPath), join(root, 'node_modules/.bin'), process.env['PATH']].join(delimiter),
    }
    const run = (line: string) =>
      execFileSync('bash', ['-c', line.replace('http://127.0.0.1:4483/mcp', url)], { cwd: root, encoding: 'utf8', env })
    const [list = '', find = '', call = ''] = commands.map(run)
    assert.equal(
      JSON.parse(list).tools.map(({ name }: { name: string }) => name),
      ['find_tool', 'call_tool'],
    )
    const { tools } = JSON.parse(find).structuredContent
    assert.is(tools[0].name, 'everything_get-sum')
    assert.ok(tools.length <= 3)
    assert.match(call, /sum of 2 and 3 is 5/)
  } finally {
    portico.signal('SIGTERM')
    await portico.ended()
    folder[Symbol.dispose]()
  }
})

test('with an embedding service tools are found by meaning, and each is embedded once', async () => {
  const service = await startEmbeddingService([['sum', 'arithmetic']])
  const manifest = (name: string) => readFileSync(join(root, 'samples/tool-search', name), 'utf8')
  const folder = temporaryFolder({
    'manifests/everything.yaml': manifest('everything.yaml'),
    'manifests/gateway.yaml': manifest('gateway.yaml').replace(
      /^( *)maxToolsToReturn:/m,
      `$1embeddingService: ${service.url}\n$&`,
    ),
  })
  linkPackages(folder)
  try {
    for (const requests of [1, 0]) {
      const portico = new RunningPortico([
        `${folder.path}/manifests`,
        '--host',
        ownHost,
        '--state',
        `${folder.path}/state`,
      ])
      try {
        const { endpoints } = await portico.ready()
        const url = endpoints.find(({ kind }) => kind === 'VirtualMCPServer')?.url ?? ''
        service.seen.length = 0
        const params = { name: 'find_tool', arguments: { query: 'arithmetic' } }
        const { json, text } = await postModern(url, 'tools/call', params)
        assert.ok(json.result, `${text}\n${portico.errors}`)
        assert.is(json.result.structuredContent.tools[0].name, 'everything_get-sum')
        assert.is(service.seen.length, 1 + requests)
      } finally {
        portico.signal('SIGTERM')
        await portico.ended()
      }
    }
  } finally {
    await service.close()
    folder[Symbol.dispose]()
  }
})

test.run()
