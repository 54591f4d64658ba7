/** Checks that tools are still found by their words if the embedding service is down, sends invalid answers or is slow. */

import { rename, rm, writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type EmbeddingRequest,
  type EmbeddingService,
  startEmbeddingService,
} from '../../../support/network/embedding-service.ts'
import { type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

const tool = (name: string, description: string) => JSON.stringify({ name, description, inputSchema: {} })
const TOOLS = [tool('getWeather', 'Conditions.'), tool('search', 'Searches things.'), tool('send_mail', 'Sends.')]
const AWAY = 'the embedding service can’t be used; tools are found by their words alone'

let backend: RawServer
let service: EmbeddingService
const cleanups: (() => unknown)[] = []

test.before(async () => {
  backend = await startRawServer({ era: 'modern', tools: TOOLS, call: () => '{}' })
})
test.before.each(async () => {
  service = await startEmbeddingService([
    ['weather', 'umbrella'],
    ['mail', 'postcard'],
  ])
})
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
  await service.close()
})
test.after(() => backend.close())

async function start(
  optimizer: NonNullable<TestConfig['optimizer']> = {},
  prepare?: (directory: string) => Promise<void>,
  more: Partial<TestConfig> = {},
): Promise<GatewayUnderTest> {
  const config = {
    ...more,
    backends: [{ name: 'b', url: backend.url }],
    optimizer: { embeddingService: service.url, ...optimizer },
  }
  const gateway = await startGateway(config, prepare)
  cleanups.push(() => gateway.close())
  await gateway.listed()
  return gateway
}

async function find({ url }: GatewayUnderTest, query: string): Promise<string[]> {
  const { json } = await postModern(url, 'tools/call', { name: 'find_tool', arguments: { query } })
  assert.not.ok(json.result.isError, JSON.stringify(json))
  return json.result.structuredContent.tools.map(({ name }: { name: string }) => name)
}
const readState = async (gateway: GatewayUnderTest) => {
  const { toolSearch, problems } = await gateway.status()
  const failures = problems.filter(({ code }) => code === 'EmbeddingsUnavailable')
  return { ...unwrap(toolSearch?.embeddings), reported: failures.map(({ message }) => message) }
}
const warnings = ({ lines }: GatewayUnderTest) => lines.filter(({ msg }) => msg === AWAY).length

const json = (text: string) => (_: EmbeddingRequest, res: ServerResponse) => {
  res.writeHead(200, { 'content-type': 'application/json' }).end(text)
  return true
}
const status =
  (code: number, headers = {}) =>
  (_: EmbeddingRequest, res: ServerResponse) => {
    res.writeHead(code, headers).end('secret words of the service')
    return true
  }
/** Writes endless data until the other side closes the connection. */
const sendEndlessly = (_: EmbeddingRequest, res: ServerResponse) => {
  const chunk = Buffer.alloc(64 * 1024, '[0.1,')
  const writeMore = () => {
    while (!res.destroyed && res.write(chunk));
  }
  res.on('drain', writeMore)
  writeMore()
  return true
}
const staySilent = () => true
const cutConnection = (_: EmbeddingRequest, res: ServerResponse) => {
  res.destroy()
  return true
}

const answers: Readonly<Record<string, (request: EmbeddingRequest, res: ServerResponse) => boolean>> = {
  'no JSON': json('<html>'),
  'no vectors': json('{}'),
  null: json('null'),
  'a text': json('"[[1,2]]"'),
  'too few': json('[]'),
  'too many': json('[[1],[1]]'),
  'an empty vector': json('[[]]'),
  'a vector of nothing': json('[null]'),
  'a vector of texts': json('[["1","2"]]'),
  'a number that is none': json('[[null,1]]'),
  'numbers without bound': json('[[1e999,1]]'),
  'numbers whose squares have no bound': json('[[1e300,1e300]]'),
  'no direction': json('[[0,0,0]]'),
  'nested a million times': json(`${'['.repeat(1e6)}1${']'.repeat(1e6)}`),
  'a vector of a million numbers': json(`[[${'1,'.repeat(1e6)}1]]`),
  'bytes without end': sendEndlessly,
  'no answer': staySilent,
  'a connection that ends': cutConnection,
  'an error': status(500),
  'no permission': status(401),
  'another place': (request, res) => status(307, { location: `${service.url}/elsewhere` })(request, res),
}

for (const [what, answer] of Object.entries(answers))
  test(`if the embedding service answers with ${what}, tools are found by their words alone`, async () => {
    const gateway = await start({ embeddingServiceTimeout: '500ms' })
    service.answer = answer
    const began = performance.now()
    assert.equal(await find(gateway, 'weather'), ['b_getWeather'])
    const before = service.seen.length
    assert.equal(await find(gateway, 'search'), ['b_search'])
    // After a failure the service is not called for at least half a second.
    const isSoon = performance.now() - began < 500
    if (isSoon) assert.is(service.seen.length, before, 'a service that has just failed is not called')
    const state = await readState(gateway)
    assert.is(state.wordsAlone, 2)
    assert.is(state.hybridSearches, 0)
    assert.ok(isSoon ? state.failures === 1 : state.failures >= 1, `${state.failures} failures`)
    assert.match(unwrap(state.problem), /^the embedding service /)
    assert.equal(state.reported, [state.problem])
    assert.is(warnings(gateway), 1)
    assert.not.match(JSON.stringify([gateway.lines, state]), /secret words|elsewhere/)
    service.answer = undefined
    await eventually('it is called again', async () => (await find(gateway, 'an umbrella'))[0] === 'b_getWeather')
    const healed = await readState(gateway)
    assert.is(healed.problem, null)
    assert.equal(healed.reported, [])
    assert.is(warnings(gateway), 1)
  })

test('vectors of another length than the query’s are ignored', async () => {
  const gateway = await start()
  service.answer = ({ texts }, res) => {
    service.more = texts[0] === 'umbrella' ? 0 : 1
    return false && res.destroyed
  }
  assert.equal(await find(gateway, 'umbrella'), [])
  assert.match(unwrap((await readState(gateway)).problem), 'another length')
  service.answer = undefined
  service.more = 2
  await eventually('a larger model', async () => (await find(gateway, 'umbrella'))[0] === 'b_getWeather')
})

test('a tool whose text the service refuses does not affect the others', async () => {
  const poison = await startRawServer({
    era: 'modern',
    tools: [...TOOLS, tool('poison', 'An umbrella of poison.'), tool('\ud800', '\ud800')],
    call: () => '{}',
  })
  cleanups.push(() => poison.close())
  const gateway = await start()
  await gateway.configure({
    backends: [{ name: 'p', url: poison.url }],
    optimizer: { embeddingService: service.url, semanticDistanceThreshold: '0.9' },
  })
  await eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === 5)
  service.answer = ({ texts }, res) => {
    if (!texts.some((text) => text.includes('poison'))) return false
    return status(413)({} as EmbeddingRequest, res)
  }
  assert.equal(await find(gateway, 'a postcard'), ['p_send_mail'])
  const before = service.texts.length
  assert.equal(await find(gateway, 'a postcard'), ['p_send_mail'])
  assert.is(service.texts.length, before + 1, 'the bad text is not sent again')
  assert.ok(service.texts.every((text) => text.isWellFormed()))
  assert.is((await readState(gateway)).wordsAlone, 0)
})

test('a query that the service refuses affects its caller alone', async () => {
  const gateway = await start()
  service.answer = ({ texts }, res) => texts[0] === 'bad weather' && status(422)({} as EmbeddingRequest, res)
  assert.equal(await find(gateway, 'bad weather'), ['b_getWeather'])
  assert.is((await find(gateway, 'umbrella'))[0], 'b_getWeather')
  assert.is((await find(gateway, '\ud800 umbrella'))[0], 'b_getWeather')
  assert.equal(await find(gateway, ' \n '), [])
  const { wordsAlone, hybridSearches, problem } = await readState(gateway)
  assert.equal({ wordsAlone, hybridSearches, problem }, { wordsAlone: 1, hybridSearches: 2, problem: null })
  assert.is(warnings(gateway), 0)
})

test('searches are counted by how they were made', async () => {
  const gateway = await start()
  const readCounts = async () => {
    const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
    const found = text.matchAll(/^portico_tool_search_searches_total\{[^}]*portico_result="(\w+)"[^}]*\} (\d+)/gm)
    return Object.fromEntries([...found].map(([, result, count]) => [result, Number(count)]))
  }
  const config = {
    backends: [{ name: 'b', url: backend.url }],
    optimizer: { embeddingService: service.url },
    telemetry: { serviceName: 't', prometheus: { enabled: true } },
  }
  await gateway.configure(config)
  await eventually('metrics', async () => (await fetch(`${gateway.adminUrl}/metrics`)).ok)
  const { config: before } = await gateway.status()
  await find(gateway, 'weather')
  await find(gateway, 'weather')
  service.answer = cutConnection
  await find(gateway, 'weather')
  await gateway.configure({ ...config, optimizer: { ...config.optimizer, hybridSearchSemanticRatio: '0' } })
  await eventually('a search by words alone', async () => (await gateway.status()).config !== before)
  await find(gateway, 'weather')
  assert.equal(await readCounts(), { words: 1, hybrid: 2, words_alone: 1 })
})

test('searches beyond the limit of waiting ones use words alone', async () => {
  // None of the waiting searches ends before all have been sent.
  const gateway = await start({ embeddingServiceTimeout: '10m' })
  await find(gateway, 'umbrella')
  const pending: ServerResponse[] = []
  service.answer = (_, res) => pending.push(res) > 0
  const searches = Array.from({ length: 80 }, () => find(gateway, 'weather'))
  await eventually('the searches over the limit', async () => (await readState(gateway)).wordsAlone === 16)
  service.answer = undefined
  for (const res of pending) res.writeHead(500).end()
  for (const found of await Promise.all(searches)) assert.is(found[0], 'b_getWeather')
})

test('slow queries of one caller do not keep others from finding by meaning', async () => {
  const gateway = await start({ embeddingServiceTimeout: '10m' }, undefined, { trustProxyHeaders: true })
  const searchFrom = async (address: string, query: string) => {
    const params = { name: 'find_tool', arguments: { query } }
    const { json } = await postModern(gateway.url, 'tools/call', params, { 'x-forwarded-for': address })
    return json.result.structuredContent.tools.map(({ name }: { name: string }) => name)
  }
  await searchFrom('192.0.2.1', 'umbrella')
  const pending: ServerResponse[] = []
  service.answer = ({ texts }, res) => texts.includes('slow') && pending.push(res) > 0
  const slow = Array.from({ length: 100 }, () => searchFrom('192.0.2.1', 'slow'))
  await eventually('the searches over the limit', async () => (await readState(gateway)).wordsAlone === 36)
  // No word matches here.
  assert.is((await searchFrom('192.0.2.2', 'umbrella'))[0], 'b_getWeather')
  assert.ok(pending.length > 0 && pending.length < 4, 'the connections to the service are not all taken')
  service.answer = undefined
  for (const res of pending) res.writeHead(500).end()
  await Promise.all(slow)
})

test('tools whose vectors come too late are found by words, and by both the next time', async () => {
  const gateway = await start({ embeddingServiceTimeout: '1s' })
  const pending: ServerResponse[] = []
  service.answer = ({ texts }, res) => texts[0] !== 'a weather umbrella' && pending.push(res) > 0
  assert.equal(await find(gateway, 'a weather umbrella'), ['b_getWeather'])
  service.answer = undefined
  await eventually('both', async () => (await find(gateway, 'postcard'))[0] === 'b_send_mail')
})

test('a private address is not called', async () => {
  const gateway = await start({ embeddingService: `http://localhost.localdomain:${service.port}` })
  await find(gateway, 'weather')
  assert.equal(service.seen, [])
  assert.match(unwrap((await readState(gateway)).problem), /can’t be asked/)
  const { lines, configure, status: read } = gateway
  const { config } = await read()
  for (const host of ['10.0.0.1', '169.254.169.254'])
    await configure({
      backends: [{ name: 'b', url: backend.url }],
      optimizer: { embeddingService: `http://${host}/` },
    })
  await eventually('it is refused', async () =>
    (await read()).refused.some(({ message }) => /never called/.test(message)),
  )
  assert.is((await read()).config, config)
  assert.ok(lines.length > 0)
})

test('a replaced key is used, and without a key the service is not asked', async () => {
  const gateway = await start({ embeddingApiKeyFile: 'key' }, (directory) =>
    writeFile(join(directory, 'key'), 'first-key'),
  )
  const key = join(gateway.directory, 'key')
  const readSent = async () => {
    await find(gateway, 'umbrella')
    return service.seen.at(-1)?.headers.authorization
  }
  assert.is(await readSent(), 'Bearer first-key')
  await writeFile(`${key}.new`, 'second-key')
  await rename(`${key}.new`, key)
  await eventually('the other key', async () => (await readSent()) === 'Bearer second-key')
  await rm(key)
  await eventually('no key', async () => {
    assert.equal(await find(gateway, 'weather').then(([first]) => first), 'b_getWeather')
    return (await readState(gateway)).problem !== null
  })
  assert.not.match(JSON.stringify([gateway.lines, await readState(gateway)]), /(first|second)-key/)
})

test.run()
