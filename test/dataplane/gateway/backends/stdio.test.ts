import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'

const script = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const EVERYTHING = script('../../../../node_modules/@modelcontextprotocol/server-everything/dist/index.js')
const RAW = script('../../../support/servers/stdio-server.ts')
const LATE = script('../../../support/servers/stdio-late-server.ts')
const MODERN = script('../../../support/servers/stdio-modern-server.ts')
const node = process.execPath

const rawServer = (name: string, env: Record<string, string> = {}) => ({
  name,
  transport: 'stdio' as const,
  stdio: { command: [node, RAW], env },
})

let gateway: GatewayUnderTest

test.before(async () => {
  gateway = await startGateway(
    {
      backends: [
        { name: 'every', transport: 'stdio', stdio: { command: [node, EVERYTHING, 'stdio'] } },
        { name: 'modern', transport: 'stdio', stdio: { command: [node, MODERN] } },
        {
          name: 'raw',
          transport: 'stdio',
          stdio: {
            command: [node, RAW],
            env: { PLAIN: 'plain' },
            envFiles: [{ name: 'SECRET', file: 'secret' }],
            cwd: '/',
          },
        },
        rawServer('ends', { MODE: 'ends' }),
        rawServer('silent', { MODE: 'silent' }),
        rawServer('forgets', { MODE: 'forgets' }),
        { name: 'late', transport: 'stdio', stdio: { command: [node, LATE] } },
      ],
    },
    (directory) => writeFile(join(directory, 'secret'), 'hush\n'),
  )
  // Six Node processes start at once: on a busy machine the first list may lack the slowest.
  await eventually('all are listed', async () => {
    const { client } = await connect(gateway.url, 'modern')
    await client.listTools()
    await client.close()
    return (await gateway.status()).backends.every(({ tools }) => tools > 0)
  })
})

test.after(() => gateway.close())

type Calls = { callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<unknown> }
const call = async (client: Calls, name: string, args: Record<string, unknown> = {}) =>
  readText(await client.callTool({ name, arguments: args }))

for (const era of ['modern', 'legacy'] as const)
  test(`${era} client: servers on standard input and output, of both eras`, async () => {
    const { client } = await connect(gateway.url, era)
    const names = (await client.listTools()).tools.map(({ name }) => name)
    for (const name of ['every_echo', 'modern_echo', 'raw_echo', 'ends_echo', 'silent_echo', 'late_echo'])
      assert.ok(names.includes(name), name)
    assert.is(await call(client, 'every_echo', { message: 'hi' }), 'Echo: hi')
    assert.is(await call(client, 'modern_echo', { message: 'hi' }), 'stdio: hi')
    assert.is(await call(client, 'late_echo'), 'late')
    for (const name of ['raw', 'ends', 'silent']) assert.is(await call(client, `${name}_echo`, { message: 'hi' }), 'hi')
    await client.close()
  })

test('the status has the revision of each server', async () => {
  const { backends } = await gateway.status()
  const revisions = Object.fromEntries(backends.map(({ name, revision }) => [name, revision]))
  assert.equal(revisions, {
    every: '2025-11-25',
    modern: '2025-11-25',
    raw: '2024-11-05',
    ends: '2024-11-05',
    silent: '2024-11-05',
    late: '2026-07-28',
    forgets: '2024-11-05',
  })
})

test('many sessions share one server process, and each answer reaches the right client', async () => {
  const clients = await Promise.all([1, 2, 3, 4].map(() => connectV1(gateway.url)))
  const answers = await Promise.all(
    clients.flatMap(({ client }, at) =>
      Array.from({ length: 25 }, (_, call) =>
        client.callTool({ name: 'raw_echo', arguments: { message: `${at}.${call}` } }),
      ),
    ),
  )
  assert.equal(
    answers.map(readText),
    clients.flatMap((_, at) => Array.from({ length: 25 }, (_, call) => `${at}.${call}`)),
  )
  assert.is(await call(clients[0]!.client, 'raw_count'), '1')
  for (const { client } of clients) await client.close()
})

for (const era of ['modern', 'legacy'] as const)
  for (const name of ['raw_progress', 'modern_steps', 'every_trigger-long-running-operation'])
    test(`${era} client: progress of ${name} comes under the client's own token`, async () => {
      const { client } = await connect(gateway.url, era)
      const seen: number[] = []
      const args = { count: 2, duration: 0.05, steps: 2 }
      await client.callTool({ name, arguments: args }, {
        onprogress: ({ progress }: { progress: number }) => void seen.push(progress),
      } as never)
      await eventually('progress', () => seen.length > 0)
      await client.close()
    })

test('an answer that is too large is an error at once, and the conversation continues', async () => {
  for (const era of ['modern', 'legacy'] as const) {
    const { client } = await connect(gateway.url, era)
    const failure = await call(client, 'raw_giant').catch((error: Error) => error.message)
    assert.match(failure, /larger than 16 MiB/)
    assert.is(await call(client, 'raw_echo', { message: 'after' }), 'after')
    await client.close()
  }
  const { backends } = await gateway.status()
  assert.is(backends.find(({ name }) => name === 'raw')?.health, 'healthy')
})

test('noise, torn JSON and too long lines cause nothing but a warning', async () => {
  const { client } = await connectV1(gateway.url)
  assert.is(await call(client, 'raw_noise', { message: 'after' }), 'after')
  assert.is(await call(client, 'raw_huge', { message: 'after' }), 'after')
  const warned = gateway.lines.filter(({ level, backend }) => level === 40 || (level === 'warn' && backend === 'raw'))
  assert.ok(warned.some((line) => JSON.stringify(line).includes('DEBUG: something happened')))
  assert.ok(warned.some((line) => JSON.stringify(line).includes('too long')))
  // Standard error has its own pipe and may arrive later.
  await eventually('its standard error', () => gateway.lines.some((line) => line['stderr'] === 'the raw server starts'))
  await client.close()
})

test('environment and folder come from the configuration, secrets from files', async () => {
  const { client } = await connectV1(gateway.url)
  assert.is(await call(client, 'raw_env'), 'plain hush /')
  await client.close()
})

test('if a server dies, the call fails at once and the next call starts it again', async () => {
  const { client } = await connectV1(gateway.url)
  const start = performance.now()
  await client.callTool({ name: 'raw_die', arguments: {} }).then(
    () => assert.unreachable(),
    () => {},
  )
  assert.ok(performance.now() - start < 15_000)
  assert.is(await call(client, 'raw_echo', { message: 'again' }), 'again', 'the next call works')
  await client.close()
})

test('a server’s question is refused if no client can be asked', async () => {
  const { client } = await connect(gateway.url, 'legacy')
  assert.is(await call(client, 'raw_ask'), 'refused -32601')
  await client.close()
})

test('a server’s question reaches a modern client as a result, and the call continues with the retry', async () => {
  const options = { capabilities: { elicitation: {} }, versionNegotiation: { mode: 'auto' } } as const
  const client = new Client({ name: 'x', version: '1' }, options)
  client.setRequestHandler('elicitation/create', async ({ params }) => {
    assert.is(params.message, 'who?')
    return { action: 'accept', content: { name: 'me' } }
  })
  await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url)))
  assert.is(client.getNegotiatedProtocolVersion(), '2026-07-28')
  for (let time = 0; time < 3; time++) assert.match(await call(client, 'raw_ask'), '"me"')
  await client.close()
})

test('a modern client that can’t be asked learns which capability it lacks, whatever the server answers', async () => {
  for (const must of [true, false]) {
    const { status, json } = await postModern(gateway.url, 'tools/call', { name: 'raw_ask', arguments: { must } })
    assert.is(status, 400)
    assert.is(json.error.code, -32021)
    assert.equal(json.error.data, { requiredCapabilities: { elicitation: {} } })
  }
})

test('a server’s question goes to the client that it clearly concerns, or to nobody', async () => {
  const client = new Client({ name: 'x', version: '1' }, { capabilities: { elicitation: { form: {} } } })
  let count = 0
  client.setRequestHandler('elicitation/create', async () => {
    count++
    return { action: 'accept', content: { name: 'me' } }
  })
  await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url)))
  assert.match(await call(client, 'raw_ask'), '"me"')
  assert.is(count, 1)
  const other = await connectV1(gateway.url)
  const abort = new AbortController()
  const params = { name: 'raw_slow', arguments: { ms: 60_000 } }
  const slow = other.client.callTool(params, undefined, { signal: abort.signal }).catch(() => {})
  await eventually('somebody else waits too', async () => (await call(client, 'raw_ask')).startsWith('refused'))
  abort.abort()
  await slow
  await other.client.close()
  await client.close()
})

test('a cancelled call is cancelled at the server under its own id', async () => {
  const { client } = await connectV1(gateway.url)
  const abort = new AbortController()
  const running = client.callTool({ name: 'raw_slow', arguments: { ms: 300 } }, undefined, { signal: abort.signal })
  const other = call(client, 'raw_slow', { ms: 400 })
  setTimeout(() => abort.abort(), 50)
  await running.then(
    () => assert.unreachable(),
    () => {},
  )
  assert.is(await other, 'done')
  await client.close()
})

test('tools that a modern server adds are shown', async () => {
  const { client } = await connectV1(gateway.url)
  await call(client, 'modern_grow')
  await eventually('the new tool', async () =>
    (await client.listTools()).tools.some(({ name }) => name === 'modern_grown'),
  )
  await client.close()
})

test('an invalid command is reported on /status, and the other servers work', async () => {
  const lone = await startGateway({
    backends: [rawServer('raw'), { name: 'none', transport: 'stdio', stdio: { command: ['/no/such/program'] } }],
  })
  await eventually('both have been tried', async () =>
    (await lone.status()).backends.every(({ health }) => health !== 'unknown'),
  )
  const { client } = await connectV1(lone.url)
  assert.is(await call(client, 'raw_echo', { message: 'hi' }), 'hi')
  const { backends } = await lone.status()
  const none = backends.find(({ name }) => name === 'none')
  assert.match(none?.lastError?.message ?? '', 'can’t be started')
  await client.close()
  await lone.close()
})

test('a bridge that has lost its server’s session is initialized again', async () => {
  const { client } = await connectV1(gateway.url)
  const callTool = async (name: string) => readText(await client.callTool({ name: `forgets_${name}`, arguments: {} }))
  const before = Number(await callTool('count'))
  assert.is(await callTool('noise'), 'ok')
  await callTool('count').then(
    () => assert.unreachable('a call that may have been carried out is not repeated'),
    () => {},
  )
  assert.is(await callTool('count'), String(before + 1))
  await client.close()
})

test.run()
