import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  type Message,
  metaForLegacy,
  metaForModern,
  parseMessage,
  rewriteCall,
} from '../../../../dataplane/gateway/mcp/message.ts'
import { PublicError } from '../../../../dataplane/server/errors.ts'

const parse = (text: string) => parseMessage(Buffer.from(text)) as Message

const readCode = (body: string | Buffer): string => {
  try {
    parseMessage(Buffer.from(body))
    return 'accepted'
  } catch (error) {
    return error instanceof PublicError ? error.code : String(error)
  }
}

test('kinds of messages are distinguished', () => {
  assert.is(parse('{"jsonrpc":"2.0","id":1,"method":"ping"}').kind, 'request')
  assert.is(parse('{"jsonrpc":"2.0","method":"notifications/initialized"}').kind, 'notification')
  assert.is(parse('{"jsonrpc":"2.0","id":1,"result":{}}').kind, 'response')
  assert.equal(parseMessage(Buffer.from(' [{}, 1.0 ,[]]')), ['{}', '1.0', '[]'])
})

test('null params count as absent, in the text too', () => {
  for (const text of [
    '{"jsonrpc":"2.0","id":1,"params" : null ,"method":"m"}',
    '{"par\\u0061ms":null,"jsonrpc":"2.0","id":1,"method":"m"}',
  ]) {
    const message = parse(text)
    assert.equal(message.params, {})
    assert.is(message.text, text.replace('null', '{}'))
    assert.equal(JSON.parse(rewriteCall(message, { id: '2', name: undefined, meta: '{"a":1}' })), {
      ...JSON.parse(text),
      id: 2,
      params: { _meta: { a: 1 } },
    })
  }
})

test('the id is kept as it was written', () => {
  for (const id of ['1', '"a"', '1.0', '-5', '12345678901234567890', '"\\u00e9"', '""'])
    assert.is(parse(`{"jsonrpc":"2.0", "id" : ${id} ,"method":"m"}`).id, id)
})

const refused: [string, string | Buffer, string][] = [
  ['empty', '', 'parse_error'],
  ['half', '{"jsonrpc":"2.0"', 'parse_error'],
  ['trailing', '{"jsonrpc":"2.0","id":1,"method":"m"} x', 'parse_error'],
  ['two byte order marks', '\ufeff\ufeff{"jsonrpc":"2.0","id":1,"method":"m"}', 'parse_error'],
  ['bad UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 'parse_error'],
  ['a string', '"x"', 'invalid_message'],
  ['null', 'null', 'invalid_message'],
  ['no version', '{"id":1,"method":"m"}', 'invalid_message'],
  ['another version', '{"jsonrpc":"1.0","id":1,"method":"m"}', 'invalid_message'],
  ['id null', '{"jsonrpc":"2.0","id":null,"method":"m"}', 'invalid_message'],
  ['id object', '{"jsonrpc":"2.0","id":{},"method":"m"}', 'invalid_message'],
  ['method number', '{"jsonrpc":"2.0","id":1,"method":5}', 'invalid_message'],
  ['method empty', '{"jsonrpc":"2.0","id":1,"method":""}', 'invalid_message'],
  ['params array', '{"jsonrpc":"2.0","id":1,"method":"m","params":[]}', 'invalid_message'],
  ['params twice, once null', '{"jsonrpc":"2.0","id":1,"method":"m","params":{},"params":null}', 'invalid_message'],
  ['nothing of all', '{"jsonrpc":"2.0","id":1}', 'invalid_message'],
  ['id twice', '{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}', 'invalid_message'],
  ['method twice', '{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}', 'invalid_message'],
  ['method in capitals', '{"jsonrpc":"2.0","id":1,"method":"m","Method":"n"}', 'invalid_message'],
  ['params in an escape', '{"jsonrpc":"2.0","id":1,"method":"m","params":{},"par\\u0061ms":{}}', 'invalid_message'],
  ['params by a long s', '{"jsonrpc":"2.0","id":1,"method":"m","params":{},"param\u017f":{}}', 'invalid_message'],
  ['name twice', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}', 'invalid_message'],
  [
    'name in capitals',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","NAME":"b"}}',
    'invalid_message',
  ],
]
for (const name of ['TaskId', 'requeststate', 'INPUTRESPONSES'])
  refused.push([name, `{"jsonrpc":"2.0","id":1,"method":"m","params":{"${name}":"a"}}`, 'invalid_message'])
for (const [name, body, code] of refused) test(`refused: ${name}`, () => assert.is(readCode(body), code))

test('an escaped name is unescaped', () => {
  const message = parse('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n\\u0061me":"a"}}')
  assert.is(message.parameter('name'), 'a')
  assert.is(rewriteCall(message, { id: undefined, name: '"b"', meta: undefined }), message.text.replace('"a"', '"b"'))
})

test('a message may be nested a thousand levels deep and no deeper', () => {
  const nest = (levels: number, [open, close] = ['[', ']']) =>
    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":${open?.repeat(levels)}1${close?.repeat(levels)}}}}`
  assert.is(parse(nest(997)).parameter('name'), 'a')
  assert.is(parse(nest(997, ['{"a":', '}'])).parameter('name'), 'a')
  assert.is(readCode(nest(998)), 'parse_error')
  assert.is(readCode(nest(200_000, ['{"a":', '}'])), 'parse_error')
  assert.is(parse(nest(0).replace('1}', `"${'['.repeat(5000)}"}`)).parameter('name'), 'a', 'text is not nested')
})

test('the cost of a body is known before its values are parsed', () => {
  const sizes: number[] = []
  const holder = { hold: (bytes: number) => void sizes.push(bytes) }
  const call = (args: string) =>
    Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":${args}}}`)
  parseMessage(call('{}'), holder)
  assert.equal(sizes, [], 'a small one is in the price of a request')
  parseMessage(call(`"${'x'.repeat(100_000)}"`), holder)
  parseMessage(call(`"${'ü'.repeat(50_000)}"`), holder)
  parseMessage(call(`[${'{},'.repeat(30_000)}{}]`), holder)
  const [plain = 0, wide = 0, many = 0] = sizes
  assert.ok(plain > 400_000 && plain < 500_000, String(plain))
  assert.ok(wide > plain, 'characters beyond Latin-1 take two bytes each')
  assert.ok(many > 2_000_000, 'empty objects take more than their text')
})

const CALL =
  '{ "jsonrpc":"2.0", "params":{"arguments":{"n":12345678901234567890,"f":1.0,"s":"a\\"}\\\\"},"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","x/y":1e2},"name":"a_b","extra":[1, 2]} ,"method":"tools/call","id":"q"}'

test('only the necessary parts are changed', () => {
  const message = parse(CALL)
  assert.is(rewriteCall(message, { id: undefined, name: undefined, meta: undefined }), CALL)
  assert.is(
    rewriteCall(message, { id: '5', name: '"b"', meta: undefined }),
    CALL.replace('"a_b"', '"b"').replace('"q"', '5'),
  )
})

test('a trace context is put at the beginning of _meta, in whatever order the members come', () => {
  const trace = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-00` }
  const member = `"traceparent":"${trace.traceparent}"`
  assert.is(
    rewriteCall(parse(CALL), { id: '5', name: '"b"', meta: undefined, trace }),
    CALL.replace('"a_b"', '"b"').replace('"q"', '5').replace('"_meta":{', `"_meta":{${member},`),
  )
  const call = (meta: string) => `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":${meta}}}`
  for (const [before, after] of [
    ['{ }', `{${member} }`],
    ['{"tracestate":"a=1","k":1}', `{"k":1,${member}}`],
    ['{"tracep\\u0061rent":"x","k":1}', `{"tracep\\u0061rent":"${trace.traceparent}","k":1}`],
    ['5', '5'],
  ] as const)
    assert.is(rewriteCall(parse(call(before)), { id: undefined, name: undefined, meta: undefined, trace }), call(after))
})

test('the modern envelope is taken out and put in', () => {
  const message = parse(CALL)
  const meta = metaForLegacy(message)
  assert.is(meta, '{"progressToken":7,"x/y":1e2}')
  const body = rewriteCall(message, { id: undefined, name: '"b"', meta })
  assert.ok(body.includes('12345678901234567890') && body.includes('"f":1.0'))
  assert.equal(JSON.parse(body).params._meta, { progressToken: 7, 'x/y': 100 })

  const legacy = parse(body)
  assert.is(metaForLegacy(legacy), undefined)
  const envelope = metaForModern(legacy, { 'io.modelcontextprotocol/protocolVersion': '"2026-07-28"' })
  assert.is(envelope, '{"progressToken":7,"x/y":1e2,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}')
})

test('an envelope that was the only member leaves nothing behind', () => {
  const message = parse(
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"io.modelcontextprotocol/x":1}}}',
  )
  assert.is(metaForLegacy(message), null)
  const body = rewriteCall(message, { id: '9', name: '"c"', meta: null })
  assert.is(body, '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"c"}}')
})

test('an envelope goes into a call without _meta', () => {
  const message = parse('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"n":1.0}}}')
  const body = rewriteCall(message, { id: undefined, name: '"b"', meta: metaForModern(message, { k: '1' }) })
  assert.is(
    body,
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"b","arguments":{"n":1.0},"_meta":{"k":1}}}',
  )
})

const NEW = '"c:\\"d/\u00e4"'
for (const params of [
  '{"uri":?}',
  '{ "_meta" : {"uri":"z","n":1.0} ,"uri" : ? , "x":{"uri":"y"} }',
  '{"u\\u0072i":?,"_meta":{"k":12345678901234567890}}',
  '{"cursor":"e","uri":?}',
])
  test(`only the first URI is replaced: ${params}`, () => {
    for (const text of [
      '{"jsonrpc":"2.0","id": 1.0,"method":"resources/read","params":PARAMS}',
      '{"params":PARAMS , "method":"resources/read","id":1.0,"jsonrpc":"2.0"}',
    ]) {
      const withUri = (uri: string) => text.replace('PARAMS', params).replace('?', uri)
      for (const uri of ['"a:b"', '"a:\\/\\u0062\\"x"', '""']) {
        const edited = parse(withUri(uri)).withUri('c:"d/\u00e4')
        // The edited message has the same offsets as one parsed from the new text.
        assert.equal({ ...edited }, { ...parse(withUri(NEW)) })
        assert.is(edited.kind, 'request')
      }
    }
  })

test.run()
