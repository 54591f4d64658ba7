/** Tests lists with one invalid entry: the official clients would discard the whole list for it. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { readEntry } from '../../../../dataplane/gateway/mcp/entry-rules.ts'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { answer, OK_RESULT, startRawServer, tool } from '../../../support/servers/raw-server.ts'

const SCHEMA = '"inputSchema":{"type":"object"}'
const buildOdd = (name: string, more: string) => `{"name":"${name}"${more === '' ? '' : `,${more}`}}`

/** Entries that are shown, repaired if necessary. */
const mended: Readonly<Record<string, string>> = {
  none: '',
  nothing: '"inputSchema":null',
  empty: '"inputSchema":{}',
  properties: '"inputSchema":{"type":"object","properties":null,"required":null}',
  untyped: '"inputSchema":{"properties":{"a":{"type":"string"}}}',
  booleans: '"inputSchema":{"type":"object","properties":{"a":true}}',
  description: `${SCHEMA},"description":null,"title":null`,
  annotations: `${SCHEMA},"annotations":null,"_meta":null,"icons":null,"execution":null`,
  hints: `${SCHEMA},"annotations":{"title":null,"readOnlyHint":null}`,
  output: `${SCHEMA},"outputSchema":null`,
}
/** Entries that are left out, with the violated rule. */
const broken: Readonly<Record<string, readonly [more: string, rule: string]>> = {
  anyOf: ['"inputSchema":{"anyOf":[{"type":"object"}]}', 'inputSchema/type is missing'],
  array: ['"inputSchema":{"type":"array"}', 'inputSchema/type must be object'],
  string: ['"inputSchema":"object"', 'inputSchema must be an object'],
  text: [`${SCHEMA},"annotations":{"readOnlyHint":"true"}`, 'annotations/readOnlyHint must be true or false'],
  number: [`${SCHEMA},"description":5`, 'description must be a string'],
  meta: [`${SCHEMA},"_meta":"x"`, '_meta must be an object'],
  icon: [`${SCHEMA},"icons":[{"mimeType":"image/png"}]`, 'icons/0/src is missing'],
  support: [
    `${SCHEMA},"execution":{"taskSupport":"maybe"}`,
    'execution/taskSupport must be required or optional or forbidden',
  ],
}

const prompts = [
  '{"name":"good"}',
  '{"name":"nulls","description":null,"arguments":null,"title":null,"_meta":null,"icons":null}',
  '{"name":"argument","arguments":[{"name":"a","description":null,"required":null}]}',
  '{"name":"bad","arguments":[{"required":true}]}',
  '{"name":"worse","arguments":{}}',
]
const resources = [
  '{"uri":"x://good","name":"good"}',
  '{"uri":"x://nulls","name":"nulls","description":null,"mimeType":null,"size":null,"annotations":null}',
  '{"uri":"x://nameless"}',
  '{"uri":"x://priority","name":"p","annotations":{"priority":7}}',
]
const templates = [
  '{"uriTemplate":"x://{a}","name":"good"}',
  '{"uriTemplate":"y://{a}","name":"nulls","mimeType":null}',
  '{"uriTemplate":"z://{a}","name":5}',
]

for (const era of ['legacy', 'modern'] as const)
  test(`${era} backend: each odd entry is left out alone and reported`, async () => {
    const tools = [
      tool('good'),
      ...Object.entries(mended).map(([name, more]) => buildOdd(name, more)),
      ...Object.entries(broken).map(([name, [more]]) => buildOdd(name, more)),
      '5',
      `{${SCHEMA}}`,
    ]
    const capabilities = { tools: {}, prompts: {}, resources: {} }
    const server = await startRawServer({
      era,
      tools,
      call: (request) => answer(request, `{"resultType":"complete",${OK_RESULT.slice(1)}`),
      before(request, res) {
        const { method } = request.message
        const lists: Record<string, string> = {
          'prompts/list': `"prompts":[${prompts}]`,
          'resources/list': `"resources":[${resources}]`,
          'resources/templates/list': `"resourceTemplates":[${templates}]`,
          ...(era === 'legacy' && {
            initialize: `"protocolVersion":"2025-11-25","serverInfo":{"name":"x","version":"1"},"capabilities":${JSON.stringify(capabilities)}`,
          }),
          ...(era === 'modern' && {
            'server/discover': `"supportedVersions":["2026-07-28"],"capabilities":${JSON.stringify(capabilities)}`,
          }),
        }
        const members = lists[method ?? '']
        if (members === undefined) return false
        res.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's' })
        res.end(answer(request, `{"resultType":"complete",${members}}`))
        return true
      },
    })
    const other = await startRawServer({ era: 'legacy', call: (request) => answer(request, OK_RESULT) })
    const gateway = await startGateway({
      backends: [
        { name: 'odd', url: server.url },
        { name: 'other', url: other.url },
      ],
    })
    const clients = [
      (await connectV1(gateway.url)).client,
      (await connect(gateway.url, 'legacy')).client,
      (await connect(gateway.url, 'modern')).client,
    ]
    try {
      for (const client of clients) {
        const listed = (await client.listTools()).tools.map(({ name }) => name)
        assert.equal(listed, ['odd_good', ...Object.keys(mended).map((name) => `odd_${name}`), 'other_t'].sort())
        assert.equal(
          (await client.listPrompts()).prompts.map(({ name }) => name),
          ['odd_good', 'odd_nulls', 'odd_argument'],
        )
        assert.equal(
          (await client.listResources()).resources.map(({ uri }) => uri),
          ['x://good', 'x://nulls'],
        )
        assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 2)
        assert.is(readText(await client.callTool({ name: 'odd_none', arguments: {} })), 'ok')
      }
      const { problems } = await gateway.status()
      const listMessages = (code: string) =>
        problems.filter((problem) => problem.code === code).map(({ message }) => message)
      for (const [name, [, rule]] of Object.entries(broken))
        assert.ok(
          listMessages('EntryInvalid').includes(`odd: tool "${name}" is left out: ${rule}`),
          `${name}: ${listMessages('EntryInvalid').join('\n')}`,
        )
      assert.ok(listMessages('EntryInvalid').includes('odd: resource "x://nameless" is left out: name is missing'))
      assert.ok(listMessages('EntryInvalid').includes('odd: prompt "bad" is left out: arguments/0/name is missing'))
      assert.ok(listMessages('EntryMended').includes('odd: tool "hints" is mended: annotations'))
    } finally {
      for (const client of clients) await client.close()
      await gateway.close()
      await other.close()
      await server.close()
    }
  })

test('a mended entry stays otherwise as it was written', () => {
  const text =
    '{ "name":"t", "description":null,\n"inputSchema":{"type":"object","properties":{"a":{"maximum":12345678901234567890}}}, "x":1.0}'
  const read = readEntry('tools', text)
  assert.ok('text' in read)
  assert.is(JSON.stringify(JSON.parse(read.text)), JSON.stringify({ ...JSON.parse(text), description: undefined }))
  assert.match(read.text, '12345678901234567890')
  assert.match(read.text, '"x":1.0')
})

const OUTPUTS: Readonly<Record<string, readonly [schema: string, structured: string]>> = {
  list: ['{"type":"array"}', '[1,2,"ä"]'],
  text: ['{"type":"string"}', '"hi"'],
  either: ['{"anyOf":[{"type":"string"},{"type":"null"}]}', 'null'],
}
for (const [what, [schema, structured]] of Object.entries(OUTPUTS))
  for (const content of ['[]', '[{"type":"text","text":"said"}]'])
    test(`a modern backend’s ${what} as structured content beside ${content} reaches clients of sessions as text`, async () => {
      const server = await startRawServer({
        era: 'modern',
        tools: [tool('t', `"outputSchema":${schema}`)],
        call: (request) =>
          answer(request, `{"resultType":"complete","content":${content},"structuredContent":${structured}}`),
      })
      const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: server.url }] })
      const { client: one } = await connectV1(gateway.url)
      const { client: two } = await connect(gateway.url, 'legacy')
      const { client: modern } = await connect(gateway.url, 'modern')
      try {
        for (const client of [one, two]) {
          const { tools } = await client.listTools()
          assert.is(tools[0]?.outputSchema, undefined)
          const result = await client.callTool({ name: 't', arguments: {} })
          assert.is(result.structuredContent, undefined)
          if (content !== '[]') assert.is(readText(result), 'said')
          else if (structured !== 'null') assert.is(readText(result), structured)
        }
        assert.equal((await modern.listTools()).tools[0]?.outputSchema, JSON.parse(schema))
        assert.equal((await modern.callTool({ name: 't', arguments: {} })).structuredContent, JSON.parse(structured))
      } finally {
        for (const client of [one, two, modern]) await client.close()
        await gateway.close()
        await server.close()
      }
    })

test.run()
