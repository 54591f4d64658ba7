import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

/** Tests prompts and resources of several backends behind one gateway. */

const lists: Readonly<Record<string, (own: string) => string>> = {
  'prompts/list': (own) => `{"prompts":[{"name":"p","x-odd":1.0,"description":"${own}"}]}`,
  'resources/list': (own) => `{"resources":[{"uri":"file:///shared","name":"${own}"},{"uri":"${own}://r","name":"r"}]}`,
  'resources/templates/list': (own) => `{"resourceTemplates":[{"uriTemplate":"${own}://t/{id}","name":"t"}]}`,
}

async function startOffering(own: string): Promise<RawServer> {
  return startRawServer({
    era: 'legacy',
    call: () => undefined,
    before({ message }, res) {
      const { method = '', id, params } = message
      const json = (member: string, session: Record<string, string> = {}) => {
        res.writeHead(200, { 'content-type': 'application/json', ...session })
        res.end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},${member}}`)
        return true
      }
      if (method === 'initialize')
        return json(
          `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{},"completions":{}},"serverInfo":{"name":"o","version":"1"},"instructions":"Ask ${own} first."}`,
          { 'mcp-session-id': own },
        )
      const list = lists[method]
      if (list !== undefined) return json(`"result":${list(own)}`)
      if (method === 'resources/read' && String(params?.['uri']).endsWith('gone'))
        return json('"error":{"code":-32002,"message":"gone"}')
      if (['prompts/get', 'resources/read', 'completion/complete'].includes(method))
        return json(`"result":{"from":"${own}","got":${JSON.stringify(params)}}`)
      return false
    },
  })
}

let one: RawServer
let two: RawServer
let gateway: GatewayUnderTest

test.before(async () => {
  one = await startOffering('one')
  two = await startOffering('two')
  gateway = await startGateway({
    backends: [
      { name: 'b', url: one.url },
      { name: 'a', url: two.url },
    ],
  })
})

test.after(async () => {
  await gateway.close()
  await Promise.all([one.close(), two.close()])
})

test('prompts get a prefix and URIs stay; if two backends share a URI, the first one has it', async () => {
  const session = await openSession(gateway.url)
  const prompts = await post(gateway.url, rpc('prompts/list'), session)
  assert.match(prompts.text, '"x-odd":1.0')
  assert.equal(prompts.json.result.prompts.map(({ name }: { name: string }) => name).sort(), ['a_p', 'b_p'])
  const { json } = await post(gateway.url, rpc('resources/list'), session)
  assert.equal(
    json.result.resources.map(({ uri, name }: Record<string, string>) => `${uri} ${name}`),
    ['file:///shared one', 'one://r r', 'two://r r'],
  )
})

test('a modern client sees the same with the members of its era', async () => {
  const { json } = await postModern(gateway.url, 'resources/list')
  assert.is(json.result.resources.length, 3)
  assert.is(json.result.resultType, 'complete')
  assert.is(json.result.cacheScope, 'private')
  const discovered = await postModern(gateway.url, 'server/discover')
  assert.equal(Object.keys(discovered.json.result.capabilities).sort(), [
    'completions',
    'prompts',
    'resources',
    'tools',
  ])
})

test('requests go to the backend that has the named prompt or resource', async () => {
  const read = async (uri: string) => (await postModern(gateway.url, 'resources/read', { uri })).json
  assert.is((await read('two://r')).result.from, 'two')
  assert.is((await read('two://t/5')).result.from, 'two')
  assert.is((await read('file:///shared')).result.from, 'one')
  assert.is((await read('one://t/5')).result.ttlMs, 0)
  const { result } = (await postModern(gateway.url, 'prompts/get', { name: 'a_p' })).json
  assert.is(result.from, 'two')
  assert.is((result.got as { name: string }).name, 'p')
  const session = await openSession(gateway.url)
  const ref = { type: 'ref/prompt', name: 'b_p' }
  const completed = await post(
    gateway.url,
    rpc('completion/complete', { ref, argument: { name: 'x', value: '' } }),
    session,
  )
  assert.equal(completed.json.result, {
    from: 'one',
    got: { ref: { type: 'ref/prompt', name: 'p' }, argument: { name: 'x', value: '' } },
  })
})

test('an unknown resource gets the error code of the client’s era', async () => {
  const unknown = await postModern(gateway.url, 'resources/read', { uri: 'three://x' })
  assert.is(unknown.status, 200, 'an answer to the request, as for a tool that is nowhere')
  assert.is(unknown.json.error.code, -32602)
  const gone = await postModern(gateway.url, 'resources/read', { uri: 'one://t/gone' })
  assert.is(gone.json.error.code, -32602)
  const session = await openSession(gateway.url)
  const legacy = await post(gateway.url, rpc('resources/read', { uri: 'one://t/gone' }), session)
  assert.is(legacy.json.error.code, -32002)
  const nowhere = await post(gateway.url, rpc('resources/read', { uri: 'three://x' }), session)
  assert.equal(nowhere.json.error, {
    code: -32002,
    message: 'There is no resource of this URI.',
    data: { uri: 'three://x' },
  })
})

const initialize = rpc('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {} })

test('instructions of backends reach clients of both eras under the backends’ names', async () => {
  const instructions = '# b\n\nAsk one first.\n\n# a\n\nAsk two first.'
  assert.is((await post(gateway.url, initialize)).json.result.instructions, instructions)
  assert.is((await postModern(gateway.url, 'server/discover')).json.result.instructions, instructions)
})

test('a proxy passes its backend’s instructions on unchanged', async () => {
  const proxy = await startGateway({ role: 'proxy', backends: [{ name: 'one', url: one.url }] })
  assert.is((await post(proxy.url, initialize)).json.result.instructions, 'Ask one first.')
  await proxy.close()
})

test.run()
