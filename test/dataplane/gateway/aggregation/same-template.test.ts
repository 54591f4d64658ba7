import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { answer, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

/** Two backends with the same resource template: a read goes to the one that lists a URI next to the requested one. */

/** Starts a server that answers every read, and lists these URIs and one template. */
const startReading = (name: string, uris: readonly string[], template = 'docs://{+path}'): Promise<RawServer> =>
  startRawServer({
    era: 'legacy',
    call: () => undefined,
    before(request, res) {
      const { method, params } = request.message
      const give = (result: object, headers: Record<string, string> = {}) => {
        res.writeHead(200, { 'content-type': 'application/json', ...headers })
        res.end(answer(request, JSON.stringify(result)))
        return true
      }
      if (method === 'initialize')
        return give(
          {
            protocolVersion: '2025-11-25',
            capabilities: { tools: {}, resources: {} },
            serverInfo: { name, version: '1' },
          },
          { 'mcp-session-id': name },
        )
      if (method === 'resources/list') return give({ resources: uris.map((uri) => ({ uri, name: uri })) })
      if (method === 'resources/templates/list') return give({ resourceTemplates: [{ uriTemplate: template, name }] })
      if (method === 'resources/read') return give({ contents: [{ uri: params?.['uri'], text: name }] })
      return false
    },
  })

test('among equal templates the backend whose listed URIs share the longest path is asked', async () => {
  const a = await startReading('a', ['docs://shared/a/index.md', 'docs://only-a/index.md'])
  const b = await startReading('b', ['docs://shared/b/index.md', 'docs://only-b/index.md', 'docs://only-a/deep/x.md'])
  const gateway = await startGateway({
    backends: [
      { name: 'a', url: a.url },
      { name: 'b', url: b.url },
    ],
  })
  const session = await openSession(gateway.url)
  const places: readonly (readonly [uri: string, from: string])[] = [
    ['docs://only-b/references/X.md', 'b'],
    ['docs://only-a/references/X.md', 'a'],
    ['docs://only-a/deep/y.md', 'b'],
    ['docs://shared/b/y.md', 'b'],
    ['docs://shared/a/y/z.md', 'a'],
    ['docs://nobody/y.md', 'a'],
  ]
  for (const [uri, from] of places) {
    const modern = (await postModern(gateway.url, 'resources/read', { uri })).json
    assert.is(modern.result.contents[0].text, from, uri)
    const legacy = (await post(gateway.url, rpc('resources/read', { uri }), session)).json
    assert.is(legacy.result.contents[0].text, from, uri)
  }
  await gateway.close()
  await Promise.all([a.close(), b.close()])
})

test.run()
