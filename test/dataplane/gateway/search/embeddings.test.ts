/** Searches tools by meaning, over HTTP, with an embedding service of either protocol. */

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { AUDIENCE } from '../../../support/gateway/guarded.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { type EmbeddingService, startEmbeddingService } from '../../../support/network/embedding-service.ts'
import { startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { startMcpServer } from '../../../support/servers/dual-server.ts'
import { type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

type Era = 'modern' | 'legacy'
type Headers = Record<string, string>

const eras: readonly Era[] = ['modern', 'legacy']
const MEANINGS = [
  ['weather', 'umbrella', 'rain'],
  ['mail', 'postcard', 'letter'],
  ['bug', 'issue', 'defect'],
]
const tool = (name: string, description: string) =>
  JSON.stringify({ name, description, inputSchema: { type: 'object', properties: {} } })
const TOOLS = [
  tool('getWeather', 'Current conditions at a place.'),
  tool('send_mail', 'Sends a message to somebody.'),
  tool('create_issue', 'Files a bug in a repository.'),
  tool('search', 'Searches things.'),
]

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function startService(): Promise<EmbeddingService> {
  const service = await startEmbeddingService(MEANINGS)
  cleanups.push(() => service.close())
  return service
}

async function startBackend(era: Era = 'modern', tools: readonly string[] = TOOLS): Promise<RawServer> {
  const backend = await startRawServer({ era, tools, call: ({ message: { id } }) => answerTo(id) })
  cleanups.push(() => backend.close())
  return backend
}
const answerTo = (id: unknown) =>
  JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', content: [] } })

async function start(config: TestConfig, prepare?: (directory: string) => Promise<void>): Promise<GatewayUnderTest> {
  const gateway = await startGateway(config, prepare)
  cleanups.push(() => gateway.close())
  await gateway.listed()
  return gateway
}

/** Starts a gateway with the tools above. */
async function startSearched(
  optimizer: NonNullable<TestConfig['optimizer']>,
  prepare?: (directory: string) => Promise<void>,
): Promise<GatewayUnderTest> {
  const backend = await startBackend()
  return start({ backends: [{ name: 'b', url: backend.url }], optimizer }, prepare)
}

async function find(url: string, query: string, headers: Headers = {}, era: Era = 'modern'): Promise<string[]> {
  const params = { name: 'find_tool', arguments: { query } }
  const { json } =
    era === 'modern'
      ? await postModern(url, 'tools/call', params, headers)
      : await post(url, rpc('tools/call', params), await openSession(url, headers))
  assert.not.ok(json.result.isError, JSON.stringify(json))
  return json.result.structuredContent.tools.map(({ name }: { name: string }) => name)
}
const embeddings = async (gateway: GatewayUnderTest) => unwrap((await gateway.status()).toolSearch).embeddings

for (const embeddingProvider of ['tei', 'openai'] as const)
  for (const behind of eras)
    test(`tools of a ${behind} backend are found by meaning, by the protocol of ${embeddingProvider}`, async () => {
      const service = await startService()
      const backend = await startBackend(behind)
      const gateway = await start(
        {
          backends: [{ name: 'b', url: backend.url }],
          optimizer: {
            ...{
              embeddingProvider,
              embeddingService: service.url,
              embeddingModel: 'small',
              embeddingApiKeyFile: 'key',
            },
            ...(embeddingProvider === 'openai' && { embeddingHeaders: { 'X-Team': 'tools' } }),
          },
        },
        (directory) => writeFile(join(directory, 'key'), 'key-of-the-service\n'),
      )
      for (const era of eras) {
        assert.is((await find(gateway.url, 'do I need an umbrella', {}, era))[0], 'b_getWeather')
        assert.is((await find(gateway.url, 'a postcard', {}, era))[0], 'b_send_mail')
      }
      for (const { path, headers, body } of service.seen) {
        assert.is(headers.authorization, 'Bearer key-of-the-service')
        assert.is(headers['content-type'], 'application/json')
        assert.is(headers['x-team'], embeddingProvider === 'openai' ? 'tools' : undefined)
        assert.is(path, embeddingProvider === 'openai' ? '/v1/embeddings' : '/embed')
        assert.is(body['model'], embeddingProvider === 'openai' ? 'small' : undefined)
      }
      const { hybridSearches, wordsAlone, problem, kept } = unwrap(await embeddings(gateway))
      assert.equal(
        { hybridSearches, wordsAlone, problem, kept },
        {
          ...{ hybridSearches: 4, wordsAlone: 0, problem: null, kept: 'disk' },
        },
      )
      assert.not.match(JSON.stringify([gateway.lines, await gateway.status()]), 'key-of-the-service')
    })

test('a complete path, or one that begins with /v1, is used as it is', async () => {
  const service = await startService()
  for (const [path, embeddingProvider, expectedPath] of [
    ['/v1', 'openai', '/v1/embeddings'],
    ['/v1/', 'openai', '/v1/embeddings'],
    ['/v1beta/embeddings?version=2', 'openai', '/v1beta/embeddings?version=2'],
    ['/embed/', 'tei', '/embed'],
  ] as const) {
    const embeddingService = service.url + path
    const { url } = await startSearched({ embeddingProvider, embeddingService, embeddingModel: 'm' })
    assert.is((await find(url, 'umbrella'))[0], 'b_getWeather', path)
    assert.is(service.seen.at(-1)?.path, expectedPath)
  }
})

test('each text of many tools is embedded once, thirty-two at a time', async () => {
  const service = await startService()
  const names = Array.from({ length: 100 }, (_, number) => `tool${number}`)
  const backend = await startBackend('modern', [...names.map((name) => tool(name, `Does ${name}.`)), ...TOOLS])
  const gateway = await start({
    backends: [{ name: 'b', url: backend.url }],
    optimizer: { embeddingService: service.url },
  })
  const found = await Promise.all(Array.from({ length: 10 }, () => find(gateway.url, 'umbrella')))
  for (const names of found) assert.is(names[0], 'b_getWeather')
  const ofTools = service.texts.filter((text) => text !== 'umbrella')
  assert.is(ofTools.length, 104)
  assert.is(new Set(ofTools).size, 104)
  assert.is(Math.max(...service.seen.map(({ texts }) => texts.length)), 32)
  assert.is((await embeddings(gateway))?.vectors, 104)
})

test('callers with different rights share vectors and find nothing that is denied to them', async () => {
  const service = await startService()
  const backend = await startBackend()
  const idp = await startIdentityProvider()
  cleanups.push(() => idp.close())
  const { url } = await start({
    backends: [{ name: 'b', url: backend.url }],
    optimizer: { embeddingService: service.url },
    resourceUrl: AUDIENCE,
    incomingAuth: { type: 'oidc', oidc: { issuer: idp.issuer, audience: AUDIENCE, allowPrivateIP: true } },
    authz: {
      policies: [
        'permit(principal == Client::"ada", action, resource);',
        'permit(principal == Client::"bob", action, resource == Tool::"b_send_mail");',
      ],
    },
  })
  const bearer = async (sub: string) => ({ authorization: `Bearer ${await idp.mint({ sub, aud: AUDIENCE })}` })
  for (const era of eras) {
    assert.is((await find(url, 'umbrella', await bearer('ada'), era))[0], 'b_getWeather')
    const ofBob = await find(url, 'umbrella', await bearer('bob'), era)
    assert.not.ok(ofBob.includes('b_getWeather'), `${ofBob}`)
    assert.is((await find(url, 'postcard', await bearer('bob'), era))[0], 'b_send_mail')
  }
  const ofTools = service.texts.filter((text) => !['umbrella', 'postcard'].includes(text))
  assert.is(ofTools.length, TOOLS.length)
})

test('words and meaning have the configured weight, and distant tools are not found', async () => {
  const service = await startService()
  const searchWith = async (more: object, query: string) =>
    find((await startSearched({ embeddingService: service.url, ...more })).url, query)
  const alike = 'postcard search'
  assert.equal(await searchWith({ hybridSearchSemanticRatio: '0' }, alike), ['b_search'])
  assert.equal(service.seen, [], 'without a weight the service is not called')
  assert.is((await searchWith({ hybridSearchSemanticRatio: '0.1' }, alike))[0], 'b_search')
  assert.is((await searchWith({ hybridSearchSemanticRatio: '0.9' }, alike))[0], 'b_send_mail')
  assert.equal(await searchWith({ hybridSearchSemanticRatio: '1', semanticDistanceThreshold: '0.5' }, alike), [
    'b_send_mail',
  ])
  assert.equal(await searchWith({ semanticDistanceThreshold: '0.5' }, 'an umbrella'), ['b_getWeather'])
  assert.is((await searchWith({ semanticDistanceThreshold: '1.0' }, 'an umbrella')).length, TOOLS.length)
  assert.equal(await searchWith({ semanticDistanceThreshold: '0' }, 'search and rain, defect'), ['b_search'])
})

test('a tool that is added later is found by meaning, and only its text is embedded', async () => {
  const service = await startService()
  const server = await startMcpServer({ mode: 'sessions' })
  cleanups.push(() => server.close())
  const { url } = await start({
    backends: [{ name: 's', url: server.url }],
    optimizer: { embeddingService: service.url },
  })
  await find(url, 'umbrella')
  const before = service.texts.length
  server.addTool('rain_radar')
  await eventually('the new tool is found', async () => (await find(url, 'umbrella'))[0] === 's_rain_radar')
  const requested = service.texts.slice(before).filter((text) => text !== 'umbrella')
  assert.is(requested.length, 1)
  assert.match(requested[0] ?? '', 'rain_radar')
})

test('a newly configured service is asked, and none if none is configured', async () => {
  const [one, other] = [await startService(), await startService()]
  const backend = await startBackend()
  const buildConfig = (optimizer: NonNullable<TestConfig['optimizer']>): TestConfig => ({
    backends: [{ name: 'b', url: backend.url }],
    optimizer,
  })
  const gateway = await start(buildConfig({ embeddingService: one.url }))
  const inForce = async (optimizer: NonNullable<TestConfig['optimizer']>) => {
    const { config } = await gateway.status()
    await gateway.configure(buildConfig(optimizer))
    await eventually('another configuration', async () => (await gateway.status()).config !== config)
  }
  await find(gateway.url, 'umbrella')
  await inForce({ embeddingService: one.url, semanticDistanceThreshold: '0.5' })
  assert.equal(await find(gateway.url, 'umbrella'), ['b_getWeather'])
  assert.is(one.texts.length, TOOLS.length + 2, 'the stored vectors stay')
  await inForce({ embeddingService: other.url })
  assert.is((await find(gateway.url, 'umbrella'))[0], 'b_getWeather')
  assert.is(other.texts.length, TOOLS.length + 1)
  await inForce({})
  assert.equal(await find(gateway.url, 'umbrella'), [])
  assert.is(await embeddings(gateway), null)
  assert.is(one.texts.length + other.texts.length, 2 * TOOLS.length + 3)
})

test.run()
