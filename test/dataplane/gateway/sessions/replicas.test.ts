import { setImmediate as nextTurn } from 'node:timers/promises'
/** Several replicas of one gateway on one Redis: any of them serves any request of a session. */
import type { McpServer } from '@modelcontextprotocol/server'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { Relays } from '../../../../dataplane/gateway/sessions/relay/relays.ts'
import type { Session } from '../../../../dataplane/gateway/sessions/session.ts'
import { Sessions } from '../../../../dataplane/gateway/sessions/sessions.ts'
import { openSessionStorage } from '../../../../dataplane/gateway/sessions/store/storage.ts'
import { eventually } from '../../../support/eventually.ts'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { RedisStage } from '../../../support/gateway/redis-stage.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { startCutProxy } from '../../../support/network/cut-proxy.ts'
import { startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { startTcpFront } from '../../../support/network/tcp-front.ts'
import { endFileOnError } from '../../../support/or-fail.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'
import { skillText, startSkillsServer } from '../../../support/servers/skills-server.ts'

/** Short timeouts for Redis: some tests take it away. */
const buildImpatient = (address: string): TestConfig['sessionStorage'] => ({
  redis: { addresses: [address], dialTimeout: '2s', readTimeout: '2s', writeTimeout: '2s' },
})

let backend: McpTestServer
const stage = new RedisStage(test, () => backend.url)
const { cleanups } = stage
test.before(async () => {
  backend = await startMcpServer({ name: 'b', mode: 'sessions' })
})
test.after(() => backend.close())

/** Starts two ready replicas of a gateway; the record of the backend's requests is empty. */
async function twoReplicas(more: Partial<TestConfig> = {}): Promise<[GatewayUnderTest, GatewayUnderTest]> {
  const replicas = await stage.twoReplicas(more)
  backend.seen.length = 0
  return replicas
}

const echo = (message: string) => rpc('tools/call', { name: 'b_echo', arguments: { message } })
const backendSessions = () => new Set(backend.calls('tools/call').map(({ headers }) => headers['mcp-session-id']))

test('a session opened at one replica works at the other, in the same session with the backend', async () => {
  const [one, two] = await twoReplicas()
  const session = await openSession(one.url)
  assert.is(readText((await post(one.url, echo('1'), session)).json.result), 'b: 1')
  assert.is(readText((await post(two.url, echo('2'), session)).json.result), 'b: 2')
  assert.is(readText((await post(one.url, echo('3'), session)).json.result), 'b: 3')
  assert.is(backendSessions().size, 1)
  assert.is(backend.calls('initialize').length, 1)
  assert.equal([(await one.status()).sessions, (await two.status()).sessions], [1, 1])
})

test('skills listed at one replica can be read at the other, with and without a session', async () => {
  const register = (server: McpServer) => void server.registerTool('t', {}, () => ({ content: [] }))
  const servers = [
    await startSkillsServer({ files: { 'a/SKILL.md': skillText('a'), 'a/X.md': 'x' }, eras: 'sessions', register }),
    await startSkillsServer({ files: { 'b/SKILL.md': skillText('b') }, register }),
  ] as const
  const [one, two] = await twoReplicas({ backends: servers.map(({ url }, at) => ({ name: `s${at}`, url })) })
  const session = await openSession(one.url)
  const list = async (url: string) => (await post(url, rpc('skills/list'), session)).json.result as unknown
  const uris = ['skill://s0/a/SKILL.md', 'skill://s1/b/SKILL.md']
  for (const { url } of [one, two])
    assert.equal(
      ((await list(url)) as { skills: { uri: string }[] }).skills.map(({ uri }) => uri),
      uris,
    )
  for (const uri of [...uris, 'skill://s0/a/X.md']) {
    assert.is((await post(two.url, rpc('resources/read', { uri }), session)).json.result.contents[0].uri, uri)
    assert.is((await postModern(two.url, 'resources/read', { uri })).json.result.contents[0].uri, uri)
    if (!uri.endsWith('SKILL.md')) continue
    assert.ok((await post(two.url, rpc('skills/get', { uri }), session)).json.result)
    assert.ok((await postModern(two.url, 'skills/get', { uri })).json.result)
  }
  const directory = await post(two.url, rpc('resources/directory/read', { uri: 'skill://s0/a' }), session)
  assert.is((directory.json.result as unknown as { resources: object[] }).resources.length, 2)
  await Promise.all(servers.map((server) => server.close()))
})

test('DELETE at a replica that never saw the session ends it everywhere, at the backend too', async () => {
  const [one, two] = await twoReplicas()
  const session = await openSession(one.url)
  await post(one.url, echo('1'), session)
  const [id] = backendSessions()
  backend.seen.length = 0
  assert.is((await fetch(two.url, { method: 'DELETE', headers: session })).status, 204)
  await eventually(
    'the first one to see the end',
    async () => (await post(one.url, rpc('ping'), session)).status === 404,
  )
  assert.is((await post(two.url, rpc('ping'), session)).status, 404)
  await eventually('the backend’s session to end', () =>
    backend.seen.some(({ method, headers }) => method === 'DELETE' && headers['mcp-session-id'] === id),
  )
})

test('two first calls that race on two replicas settle on one session with the backend', async () => {
  const [one, two] = await twoReplicas()
  for (let round = 0; round < 5; round++) {
    const session = await openSession(one.url)
    backend.seen.length = 0
    const answers = await Promise.all([post(one.url, echo('1'), session), post(two.url, echo('2'), session)])
    assert.equal(
      answers.map(({ json }) => readText(json.result)),
      ['b: 1', 'b: 2'],
    )
    await Promise.all([post(one.url, echo('3'), session), post(two.url, echo('4'), session)])
    assert.is(backendSessions().size, 1)
  }
})

test('a backend that lost the session is initialized again once, whichever replica notices', async () => {
  const [one, two] = await twoReplicas()
  const session = await openSession(one.url)
  await post(one.url, echo('1'), session)
  await post(two.url, echo('2'), session)
  backend.forget()
  backend.seen.length = 0
  assert.is(readText((await post(one.url, echo('3'), session)).json.result), 'b: 3')
  assert.is(readText((await post(two.url, echo('4'), session)).json.result), 'b: 4')
  const alive = backend.calls('tools/call').slice(-1)[0]?.headers['mcp-session-id']
  assert.is(readText((await post(one.url, echo('5'), session)).json.result), 'b: 5')
  assert.is(backend.calls('tools/call').slice(-1)[0]?.headers['mcp-session-id'], alive)
})

test('a session belongs to its owner on every replica, with any of the owner’s tokens', async () => {
  const idp = await startIdentityProvider()
  cleanups.push(() => idp.close())
  const audience = 'https://gateway.example/mcp'
  const oidc = { issuer: idp.issuer, audience, allowPrivateIP: true }
  const [one, two] = await twoReplicas({ resourceUrl: audience, incomingAuth: { type: 'oidc', oidc } })
  const bearer = async (sub: string) => ({ authorization: `Bearer ${await idp.mint({ aud: audience, sub })}` })
  const session = await openSession(one.url, await bearer('alice'))
  for (const { url } of [one, two, one, two]) {
    const renewed = { ...session, ...(await bearer('alice')) }
    assert.is((await post(url, rpc('ping'), renewed)).status, 200)
    assert.is((await post(url, rpc('ping'), { ...session, ...(await bearer('mallory')) })).status, 404)
  }
})

test('while Redis is down sessions get 503 at once, the modern era works, and both recover', async () => {
  const proxy = await startCutProxy({ host: '127.0.0.1', port: stage.redis.port })
  const gateway = await startGateway(stage.config({ sessionStorage: buildImpatient(`127.0.0.1:${proxy.port}`) }))
  cleanups.push(
    () => gateway.close(),
    () => proxy.close(),
  )
  const session = await openSession(gateway.url)
  assert.is((await post(gateway.url, rpc('ping'), session)).status, 200)
  const initialize = rpc('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {} })
  for (const failure of ['refuse', 'freeze'] as const) {
    proxy[failure]()
    await eventually('answer 503', async () => (await post(gateway.url, rpc('ping'), session)).status === 503)
    const refused = await post(gateway.url, initialize)
    assert.is(refused.status, 503)
    assert.is(refused.headers.get('retry-after'), '1')
    assert.not.match(refused.text, /127\.0\.0\.1|redis/i)
    const { json } = await postModern(gateway.url, 'tools/call', { name: 'b_echo', arguments: { message: 'x' } })
    assert.is(readText(json.result), 'b: x')
    proxy.thaw()
    await eventually('answer 200', async () => (await post(gateway.url, rpc('ping'), session)).status === 200)
  }
})

test('sessions survive a change from memory to Redis', async () => {
  const config = stage.config()
  const { sessionStorage: _, ...memory } = config
  const one = await startGateway(memory)
  cleanups.push(() => one.close())
  const session = await openSession(one.url)
  await post(one.url, echo('1'), session)
  await one.configure(config)
  await eventually('Redis to be in force', async () => JSON.stringify(await one.status()).includes('"redis"'))
  const two = await startGateway(config)
  cleanups.push(() => two.close())
  await eventually('both serve it', async () => (await post(two.url, rpc('ping'), session)).status === 200)
  assert.is((await post(one.url, echo('2'), session)).status, 200)
})

test('a backend’s question reaches the client where it listens, and can be answered at any replica', async () => {
  const [one, two] = await twoReplicas()
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: { elicitation: {} },
    clientInfo: { name: 'raw', version: '1' },
  }
  const opened = await post(one.url, rpc('initialize', params))
  const session = { 'mcp-session-id': opened.headers.get('mcp-session-id') as string }
  const stream = await fetch(one.url, { headers: { ...session, accept: 'text/event-stream' } })
  const questions: unknown[] = []
  const reading = (async () => {
    let read = ''
    for await (const part of (stream.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream())) {
      read += part
      for (const [, data] of read.matchAll(/^data: (.+)\n\n/gm)) questions.push(JSON.parse(data as string))
      read = read.slice(read.lastIndexOf('\n\n') + 1)
    }
  })()
  await post(two.url, echo('opens the session with the backend'), session)
  for (const [asking, answering] of [
    [one, two],
    [two, one],
  ] as const) {
    questions.length = 0
    const called = post(asking.url, rpc('tools/call', { name: 'b_ask', arguments: {} }, 7), session)
    await eventually('the question', () => questions.length === 1)
    const { id, method } = questions[0] as { id: unknown; method: string }
    assert.is(method, 'elicitation/create')
    const answer = JSON.stringify({ jsonrpc: '2.0', id, result: { action: 'accept', content: {} } })
    assert.is((await post(answering.url, answer, session)).status, 202)
    assert.match((await called).text, /somebody answered/)
  }
  await fetch(two.url, { method: 'DELETE', headers: session })
  await reading
})

test('a replica that stops leaves its sessions, here and at the backends, to the others', async () => {
  const config = stage.config()
  const [one, two] = [await startGateway(config), await startGateway(config)]
  cleanups.push(() => two.close())
  const session = await openSession(one.url)
  backend.seen.length = 0
  await post(one.url, echo('1'), session)
  const [id] = backendSessions()
  await one.close()
  backend.seen.length = 0
  assert.is(readText((await post(two.url, echo('2'), session)).json.result), 'b: 2')
  assert.equal([...backendSessions()], [id])
})

/** Returns the sessions of one replica without a gateway around them. */
function createReplica(name: string): Sessions {
  const config = {
    name,
    namespace: 'x',
    role: 'gateway',
    incomingAuth: { type: 'anonymous' },
    ...stage.config(),
  } as const
  const sessions: Sessions = new Sessions({
    relays: new Relays(() => {}),
    storage: openSessionStorage({ ...config, name }, '.', recordLog().log),
    findBackend: () => undefined,
    onServerMessage: () => {},
    onEnded: () => {},
    onFault(error) {
      throw error
    },
    watch(_session, uri, onUpdate) {
      const watch = { uri, onUpdate, at: sessions }
      watches.add(watch)
      return { active: Promise.resolve(), stop: () => void watches.delete(watch) }
    },
    onCancelled: (session, request) => cancelled.push([session.record.id, request]),
  })
  cleanups.push(() => sessions.close())
  return sessions
}
const cancelled: [string, string][] = []
const watches = new Set<{ readonly uri: string; readonly onUpdate: () => void; readonly at: Sessions }>()

const fresh = { binding: 'anonymous', revision: '2025-11-25', capabilities: '{}' }

/** Starts a client that listens at one replica and answers at another. */
async function listenAt(at: Sessions, id: string, answerAt?: Sessions): Promise<string[]> {
  const received: string[] = []
  const session = await at.find(id, 'anonymous')
  session.stream = {
    caller: { kind: 'anonymous' },
    binding: 'anonymous',
    isConnected: true,
    send(message) {
      received.push(message)
      const { id: ask } = JSON.parse(message)
      if (ask === undefined || answerAt === undefined) return
      const response = JSON.stringify({ jsonrpc: '2.0', id: ask, result: { action: 'accept' } })
      endFileOnError(async () =>
        answerAt.responded(await answerAt.find(id, 'anonymous'), JSON.stringify(ask), response),
      )()
    },
    heartbeat() {},
    end() {},
  }
  await at.serverMessages.subscribe(session)
  return received
}

/** Waits until both have subscribed, which is when each hears the other. */
async function waitUntilBothListen(one: Sessions, two: Sessions): Promise<void> {
  const session = await one.open(fresh)
  for (const [speaker, at] of [
    [one, two],
    [two, one],
  ] as const) {
    const received = await listenAt(at, session.record.id)
    await eventually('both replicas receive messages', async () => {
      await speaker.send(await speaker.find(session.record.id, 'anonymous'), '{}')
      return received.length > 0
    })
    ;(await at.find(session.record.id, 'anonymous')).stream = undefined
  }
}

test('a message reaches its client at another replica, and the answer reaches the asker', async () => {
  const [one, two, three] = [createReplica('m'), createReplica('m'), createReplica('m')]
  await waitUntilBothListen(one, two)
  await waitUntilBothListen(two, three)
  const opened = await one.open(fresh)
  const { id } = opened.record
  const received = await listenAt(two, id, three)
  await eventually('the note of the stream', async () => {
    const session = await one.find(id, 'anonymous')
    return (await one.send(session, '{"method":"hello"}')) && received.length > 0
  })
  const session = (await one.find(id, 'anonymous')) as Session
  const answer = await one.request(session, 'elicitation/create', '{"message":"who?"}', { timeoutMs: 60_000 })
  assert.equal(JSON.parse(answer).result, { action: 'accept' })
  assert.is(JSON.parse(received.at(-1) as string).params.message, 'who?')
})

test('a question fails at once if nobody listens, after its timeout if nobody answers, and when it is cancelled', async () => {
  const [one, two] = [createReplica('n'), createReplica('n')]
  await waitUntilBothListen(one, two)
  const { record } = await one.open(fresh)
  const readCode = async (asking: Promise<string>) => {
    try {
      return await asking
    } catch (error) {
      return (error as { code: string }).code
    }
  }
  const session = () => one.find(record.id, 'anonymous') as Session | Promise<Session>
  assert.is(await readCode(one.request(await session(), 'x', '{}', { timeoutMs: 60_000 })), 'client_unreachable')
  const received = await listenAt(two, record.id)
  await eventually('the note of the stream', async () => {
    await one.send(await session(), '{}')
    return received.length > 0
  })
  assert.is(await readCode(one.request(await session(), 'x', '{}', { timeoutMs: 50 })), 'client_timeout')
  const takeBack = new AbortController()
  const asking = readCode(one.request(await session(), 'x', '{}', { timeoutMs: 60_000, signal: takeBack.signal }))
  takeBack.abort()
  assert.is(await asking, 'client_unreachable')
  await eventually('the client to be notified', () => received.some((text) => text.includes('notifications/cancelled')))
  ;(await two.find(record.id, 'anonymous')).stream = undefined
  assert.is(await readCode(one.request(await session(), 'x', '{}', { timeoutMs: 60_000 })), 'client_unreachable')
})

test('subscriptions are kept where the client listens, and continue when a replica is gone', async () => {
  const [one, two] = [createReplica('w'), createReplica('w')]
  await waitUntilBothListen(one, two)
  watches.clear()
  const watchAt = (at: Sessions) => [...watches].find((watch) => watch.at === at)
  const { record } = await one.open(fresh)
  const first = await listenAt(one, record.id)
  await one.serverMessages.watch(await one.find(record.id, 'anonymous'), 'test://a')
  watchAt(one)?.onUpdate()
  await eventually('the update', () => first.length === 1)
  assert.match(first[0] ?? '', /"notifications\/resources\/updated".*"test:\/\/a"/)

  const second = await listenAt(two, record.id)
  await eventually('the other replica to watch', () => watchAt(two) !== undefined)
  await eventually('the first to stop', () => {
    watchAt(one)?.onUpdate()
    return watchAt(one) === undefined
  })
  watchAt(two)?.onUpdate()
  await eventually('the update at the second', () => second.length > 0)
  await two.serverMessages.unwatch(await two.find(record.id, 'anonymous'), 'test://a')
  assert.is(watches.size, 0)
})

test('only the client that was asked can answer', async () => {
  const one = createReplica('o')
  const [own, other] = [await one.open(fresh), await one.open(fresh)]
  let id = ''
  const asking = one.request(own, 'x', '{}', {
    timeoutMs: 60_000,
    send: (message) => (id = JSON.stringify(JSON.parse(message).id)),
  })
  one.responded(other, id, '{"result":"forged"}')
  one.responded(own, id, '{"result":"right"}')
  assert.is(await asking, '{"result":"right"}')
})

test('a backend that asks endlessly is refused, and earlier questions are still answered', async () => {
  const one = createReplica('p')
  const [session, other] = [await one.open(fresh), await one.open(fresh)]
  const ids: string[] = []
  const noteId = (message: string) => void ids.push(JSON.stringify(JSON.parse(message).id))
  const ask = (of: Session) =>
    one.request(of, 'x', '{}', { timeoutMs: 60_000, send: noteId }).catch(({ message }) => String(message))
  const asking = Array.from({ length: 32 }, () => ask(session))
  assert.is(await ask(session), 'Too many questions are open at once; answer or cancel some.')
  const others = ask(other)
  one.responded(other, ids.pop() as string, '{"result":0}')
  assert.is(await others, '{"result":0}')
  for (const id of ids) one.responded(session, id, '{"result":1}')
  assert.equal(await Promise.all(asking), Array(32).fill('{"result":1}'))
  const again = ask(session)
  one.responded(session, ids.at(-1) as string, '{"result":2}')
  assert.is(await again, '{"result":2}')
})

test('a cancellation reaches the replica that runs the request', async () => {
  const [one, two] = [createReplica('c'), createReplica('c')]
  await waitUntilBothListen(one, two)
  const { record } = await one.open(fresh)
  const at = await two.find(record.id, 'anonymous')
  cancelled.length = 0
  two.cancelElsewhere(at, '7')
  await eventually('it arrives', () => cancelled.length > 0)
  assert.equal(cancelled, [[record.id, '7']])
})

test('if a replica is killed, its clients lose nothing but their streams', async () => {
  const [one, two] = await stage.oneToKill()
  const front = await startTcpFront(one.port)
  cleanups.push(() => front.close())
  const url = `http://127.0.0.1:${front.port}/mcp`

  const first = await connectV1(url)
  const second = await connect(url, 'legacy')
  const clients = [first.client, second.client]
  let changes = 0
  first.client.fallbackNotificationHandler = async ({ method }) => {
    if (method === 'notifications/tools/list_changed') changes++
  }
  for (const client of clients)
    assert.is(readText(await client.callTool({ name: 'b_echo', arguments: { message: '1' } })), 'b: 1')
  backend.seen.length = 0
  front.choose(Number(new URL(two.url).port))
  await one.end('SIGKILL')
  // A request that arrives as its connection is being closed would be lost.
  await eventually('their connections have ended', () => front.open(one.port) === 0)
  await nextTurn()
  for (const client of clients)
    assert.is(readText(await client.callTool({ name: 'b_echo', arguments: { message: '2' } })), 'b: 2')
  assert.is(backend.calls('initialize').length, 0, 'the sessions with the backend continue as well')
  // The client has reopened its stream at the remaining replica, and gets that replica's notifications.
  let added = 0
  await eventually('news of a tool', async () => {
    backend.addTool(`late-${added++}`)
    return changes > 0
  })
  for (const client of clients) await client.close()
})

test.run()
