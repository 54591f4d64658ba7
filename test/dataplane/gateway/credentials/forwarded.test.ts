/**
 * Tests the chain of gateway, proxy beside the server, and server: the gateway's credential reaches the server and is
 * kept apart.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { buildExchangingBackend, startExchangingGateway } from '../../../support/gateway/exchanging-gateway.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { buildExchanged, readSubject, respond } from '../../../support/network/token-endpoint.ts'
import { answer, type RawRequest, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'

const RESULT = '{"resultType":"complete","content":[{"type":"text","text":"ok"}]}'

const readOwner = ({ headers }: Pick<RawRequest, 'headers'>) =>
  /^Bearer of-(\w+)/.exec(headers.authorization ?? '')?.[1] ?? 'nobody'

/** Shows each caller their own tool; a request without a credential gets 401. */
const startServer = (era: 'modern' | 'legacy', refuses: (request: RawRequest) => boolean = () => false) =>
  startRawServer({
    era,
    call: (request) => answer(request, RESULT),
    before: (request, res) => {
      if (refuses(request)) {
        res.writeHead(401).end()
        return true
      }
      if (request.message.method !== 'tools/list') return false
      res.writeHead(200, { 'content-type': 'application/json' })
      res.end(answer(request, `{"resultType":"complete","tools":[${tool(`t-${readOwner(request)}`)}]}`))
      return true
    },
  })

const startProxy = (server: RawServer, headerNames = ['Authorization']) =>
  startGateway({
    role: 'proxy',
    backends: [{ name: 'server', url: server.url, credential: { type: 'forwarded', forwarded: { headerNames } } }],
  })

for (const era of ['modern', 'legacy'] as const)
  test(`exchanged tokens pass the proxy of a ${era} server, each with its own sessions and lists`, async () => {
    const server = await startServer(era, (request) => readOwner(request) === 'nobody' && request.method === 'POST')
    const proxy = await startProxy(server)
    const gateway = await startExchangingGateway((endpoint) => [buildExchangingBackend('api', proxy.url, endpoint)])
    gateway.endpoint.answer = ({ form }, response) =>
      respond(
        response,
        200,
        buildExchanged(`of-${readSubject(form['subject_token']) || 'gateway'}-${gateway.endpoint.requests.length}`),
      )
    for (const user of ['alice', 'bob']) {
      const headers = await gateway.bearer(user)
      for (const ask of [
        (method: string, params: Record<string, unknown>) => postModern(gateway.url, method, params, headers),
        async (method: string, params: Record<string, unknown>) =>
          post(gateway.url, rpc(method, params), await openSession(gateway.url, headers)),
      ]) {
        const listed = await ask('tools/list', {})
        assert.equal(
          listed.json.result.tools.map(({ name }: { name: string }) => name),
          [`api_t-${user}`],
        )
        assert.ok((await ask('tools/call', { name: `api_t-${user}`, arguments: {} })).json.result)
        assert.is(readOwner(server.calls('tools/call').at(-1) as RawRequest), user)
      }
    }
    for (const { headers } of server.seen)
      assert.not.ok(headers.authorization?.includes((await gateway.bearer('alice')).authorization.slice(7)))
    const sessions = new Map<unknown, Set<string>>()
    for (const request of server.seen) {
      const id = request.headers['mcp-session-id']
      if (id !== undefined) sessions.set(id, (sessions.get(id) ?? new Set()).add(readOwner(request)))
    }
    for (const owners of sessions.values()) assert.is(owners.size, 1)
    await Promise.all([gateway.close(), proxy.close()])
    await server.close()
  })

test('a fixed credential passes the proxy as well', async () => {
  const server = await startServer('modern')
  const proxy = await startProxy(server, ['Authorization', 'X-Key'])
  const gateway = await startGateway(
    { backends: [{ name: 'api', url: proxy.url, headerFiles: [{ name: 'X-Key', file: 'key' }] }] },
    (directory) => writeFile(join(directory, 'key'), 'the-key'),
  )
  await postModern(gateway.url, 'tools/call', { name: 'api_t-nobody' }, { authorization: 'Bearer of-the-client' })
  const { authorization, 'x-key': key } = server.calls('tools/call').at(-1)?.headers ?? {}
  assert.equal([authorization, key], [undefined, 'the-key'])
  await Promise.all([gateway.close(), proxy.close()])
  await server.close()
})

test('a session is used only with the credential that opened it', async () => {
  const server = await startServer('legacy')
  const proxy = await startProxy(server)
  const session = await openSession(proxy.url, { authorization: 'Bearer of-alice' })
  const list = (headers: Record<string, string>) => post(proxy.url, rpc('tools/list'), { ...session, ...headers })
  assert.is((await list({})).json.result.tools[0].name, 't-alice')
  assert.is((await list({ authorization: 'Bearer of-bob' })).status, 404)
  const { authorization: _, ...bare } = session
  assert.is((await post(proxy.url, rpc('tools/list'), bare)).status, 404)
  await proxy.close()
  await server.close()
})

test('if a server refuses a credential, the caller who sent it gets the refusal, and a gateway obtains another one', async () => {
  for (const era of ['modern', 'legacy'] as const) {
    const refused = new Set<string | undefined>()
    const server = await startServer(era, ({ headers }) => refused.has(headers.authorization))
    const proxy = await startProxy(server)
    const gateway = await startExchangingGateway((endpoint) => [buildExchangingBackend('api', proxy.url, endpoint)])
    gateway.endpoint.answer = (_request, response) =>
      respond(response, 200, buildExchanged(`of-alice-${gateway.endpoint.requests.length}`))
    const headers = await gateway.bearer('alice')
    const call = () => postModern(gateway.url, 'tools/call', { name: 'api_t-alice', arguments: {} }, headers)
    assert.ok((await call()).json.result)
    const first = server.calls('tools/call').at(-1)?.headers.authorization
    refused.add(first)
    assert.ok((await call()).json.result, era)
    assert.is.not(server.calls('tools/call').at(-1)?.headers.authorization, first)
    const direct = await postModern(proxy.url, 'tools/call', { name: 't-alice' }, { authorization: first as string })
    assert.is(direct.status, 401)
    await Promise.all([gateway.close(), proxy.close()])
    await server.close()
  }
})

test('a configuration that would forward tokens meant for the gateway is refused', async () => {
  const backends = [
    {
      name: 'a',
      url: 'http://127.0.0.1:1/mcp',
      credential: { type: 'forwarded', forwarded: { headerNames: ['Authorization'] } },
    },
  ] as never
  for (const config of [
    { role: 'gateway', backends },
    {
      role: 'proxy',
      incomingAuth: { type: 'oidc', oidc: { issuer: 'http://127.0.0.1:1', audience: 'a' } },
      backends,
    },
  ] as const)
    await startGateway(config).then(
      () => assert.unreachable(),
      (error: Error) =>
        assert.match(
          error.message,
          /works only in a proxy that does not authenticate callers: leave it out, or set incomingAuth.type to anonymous/,
        ),
    )
})

test.run()
