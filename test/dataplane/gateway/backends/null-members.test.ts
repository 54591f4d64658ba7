/** Tests results with null members and unusual answers of any size: official clients of both eras must accept them. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, rpc } from '../../../support/gateway/post.ts'
import { type RawRequest, startRawServer } from '../../../support/servers/raw-server.ts'

const LARGE = 'x'.repeat(200_000)
const CAPABILITIES = '{"tools":{},"prompts":{},"resources":{},"completions":{}}'
const LISTS: Readonly<Record<string, string>> = {
  'prompts/list': '"prompts":[{"name":"p","arguments":[{"name":"a"}]}]',
  'resources/list': '"resources":[{"name":"r","uri":"file:///r"}]',
  'resources/templates/list': '"resourceTemplates":[]',
}

/** The server's next result; `%` in it stands for a text of any size. */
let result = ''
/** Returns the message for a result (JSON text). */
let message = (id: unknown, body: string): string => `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${body}}`
const plain = message
let isStreamed = false

async function startOdd(era: 'legacy' | 'modern') {
  const lists = era === 'modern' ? '"resultType":"complete","ttlMs":0,"cacheScope":"private",' : ''
  const server = await startRawServer({
    era,
    call: () => undefined,
    before({ message: { method = '', id } }: RawRequest, res) {
      const json = (text: string, headers = {}) => {
        res.writeHead(200, { 'content-type': 'application/json', ...headers }).end(text)
        return true
      }
      if (method === 'server/discover' && era === 'modern')
        return json(plain(id, `{${lists}"supportedVersions":["2026-07-28"],"capabilities":${CAPABILITIES}}`))
      if (method === 'initialize' && era === 'legacy')
        return json(
          plain(
            id,
            `{"protocolVersion":"2025-11-25","capabilities":${CAPABILITIES},"serverInfo":{"name":"x","version":"1"}}`,
          ),
          { 'mcp-session-id': 's' },
        )
      if (method in LISTS) return json(plain(id, `{${lists}${LISTS[method]}}`))
      if (!/^(tools\/call|prompts\/get|resources\/read|completion\/complete)$/.test(method)) return false
      const text = message(id, result)
      if (!isStreamed) return json(text)
      res.writeHead(200, { 'content-type': 'text/event-stream' }).end(`data: ${text}\n\n`)
      return true
    },
  })
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: era, url: server.url }] })
  const { client: one } = await connectV1(gateway.url)
  const { client: two } = await connect(gateway.url, 'legacy')
  const { client: three } = await connect(gateway.url, 'modern')
  const clients = { 'SDK 1': one, 'SDK 2, sessions': two, 'SDK 2, stateless': three }
  const close = async (): Promise<void> => {
    for (const client of Object.values(clients)) await client.close()
    await gateway.close()
    await server.close()
  }
  return { gateway, clients, close, era }
}

const odd = await Promise.all([startOdd('legacy'), startOdd('modern')])
test.after(async () => {
  for (const { close } of odd) await close()
})

type Client = (typeof odd)[number]['clients']['SDK 1']
const call = (client: Client) => client.callTool({ name: 't', arguments: {} })
const read = (client: Client) => client.readResource({ uri: 'file:///r' })
const get = (client: Client) => client.getPrompt({ name: 'p', arguments: { a: 'b' } })
const complete = (client: Client) =>
  client.complete({ ref: { type: 'ref/prompt', name: 'p' }, argument: { name: 'a', value: 'b' } })

const BLOCK = '{"type":"text","text":"%","annotations":null,"_meta":null}'
const READ = '"ttlMs":0,"cacheScope":"private"'
/** Each row sends a request and reads the text that `%` stands for. */
const nulls: readonly [body: string, ask: (client: Client) => Promise<unknown>, text: (answer: never) => unknown][] = [
  [`{"content":[${BLOCK}],"structuredContent":null,"isError":null,"_meta":null}`, call, readText],
  [
    `{"isError":null,"content":[{"type":"text","annotations":{"audience":null,"priority":null},"text":"%"}]}`,
    call,
    readText,
  ],
  [`{"content":[null,{"type":"text","text":null},{"type":"text","text":"%"}]}`, call, readText],
  [
    '{"content":[{"type":"resource_link","uri":"a:b","name":"%","title":null,"description":null,"mimeType":null,"size":null,"icons":null,"annotations":null}]}',
    call,
    ({ content: [link] }: { content: { name: string }[] }) => link?.name,
  ],
  [
    '{"content":[{"type":"resource","resource":{"uri":"a:b","text":"%","blob":null,"mimeType":null,"_meta":null}}]}',
    call,
    ({ content: [{ resource }] }: { content: [{ resource: { text: string } }] }) => resource.text,
  ],
  [
    '{"structuredContent":{"a":"%","b":null},"content":null}',
    call,
    ({ structuredContent: { a, b } }: { structuredContent: { a: string; b: null } }) => (b === null ? a : b),
  ],
  [
    '{"structuredContent":{"a":"%"}}',
    call,
    (answer: { structuredContent: { a: string } }) => answer.structuredContent.a,
  ],
  [
    `{"description":null,"messages":[{"role":"user","content":${BLOCK}}],"_meta":null}`,
    get,
    ({ messages: [first] }: { messages: [{ content: { text: string } }] }) => first.content.text,
  ],
  [
    `{${READ},"contents":[{"uri":"file:///r","mimeType":null,"text":"%","blob":null,"_meta":null}],"_meta":null}`,
    read,
    ({ contents: [first] }: { contents: [{ text: string }] }) => first.text,
  ],
  [
    '{"completion":{"values":["%"],"total":null,"hasMore":null},"_meta":null}',
    complete,
    ({ completion: { values } }: { completion: { values: string[] } }) => values[0],
  ],
]
const empty: readonly [body: string, ask: (client: Client) => Promise<unknown>, text: (answer: never) => unknown][] = [
  ['null', call, ({ content }: { content: unknown[] }) => content.length],
  ['{"content":null}', call, ({ content }: { content: unknown[] }) => content.length],
  ['{"messages":null}', get, ({ messages }: { messages: unknown[] }) => messages.length],
  [`{${READ},"contents":null}`, read, ({ contents }: { contents: unknown[] }) => contents.length],
  [
    '{"completion":{"values":null}}',
    complete,
    ({ completion }: { completion: { values: unknown[] } }) => completion.values.length,
  ],
]

const messages: Readonly<Record<string, typeof message>> = {
  plain,
  'id as text': (id, body) => plain(id, body).replace(/"id":(\d+)/, '"id":"$1"'),
  'id: null behind the result': (_id, body) => `{"jsonrpc":"2.0","result":${body},"id":null}`,
  'no jsonrpc, and error: null behind the result': (id, body) =>
    `{"id":${JSON.stringify(id)},"result":${body},"error":null}`,
  'members of a request around the result': (id, body) =>
    `{"jsonrpc":"2.0","method":null,"id":${JSON.stringify(id)},"error":null,"result":${body},"params":null}`,
  'in an array of one': (id, body) => `[${plain(id, body)}]`,
}

/** Returns the server's result; in the modern era it includes its type. */
const withResultType = (era: string, body: string): string =>
  era === 'legacy' ? body : body.replace(/^\{/, '{"resultType":"complete",')

for (const { clients, era } of odd)
  for (const [form, make] of Object.entries(messages))
    for (const [kind, client] of Object.entries(clients))
      test(`a ${era} server, ${form}: ${kind} accepts results of any size with nulls`, async () => {
        message = make
        for (isStreamed of [false, true]) {
          for (const [body, ask, text] of form === 'plain' ? nulls : nulls.slice(0, 1))
            for (const value of ['ok', LARGE]) {
              result = withResultType(era, body.replace('%', value))
              assert.ok(text((await ask(client as Client)) as never) === value, `${body} ${value.length} ${isStreamed}`)
            }
          for (const [body, ask, length] of form === 'plain' ? empty : []) {
            if (era === 'modern' && body === 'null') continue
            result = withResultType(era, body)
            assert.is(length((await ask(client as Client)) as never), 0, body)
          }
        }
      })

test('a large answer stays byte for byte the same except for nulls', async () => {
  const rows = '{"n":12345678901234567890,"x":null,"e":1e400,"s":"\\u00e9null"},'.repeat(5000)
  result = `{"content":[],"structuredContent":{"rows":[${rows}null]},"isError":false}`
  message = plain
  isStreamed = false
  for (const { gateway } of odd) {
    const session = await openSession(gateway.url)
    const { text } = await post(gateway.url, rpc('tools/call', { name: 't', arguments: {} }, 'a'), session)
    assert.ok(text.includes(result))
  }
})

test.run()
