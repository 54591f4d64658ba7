import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseElement, type ToolCallParts, toolCall } from '../../../../dataplane/gateway/mcp/message.ts'

const parseMeta = (text: string) => ({ text, value: JSON.parse(text) })

const calls: readonly ToolCallParts[] = [
  { id: '1', name: 'a', arguments: '{}', meta: undefined },
  {
    id: '"portico-step-1"',
    name: 'b_"tool\\"',
    arguments: '{"a":12345678901234567890}',
    meta: parseMeta('{"k":{"l":1}}'),
  },
  {
    id: '12345678901234567890',
    name: '名',
    arguments: ' {"name":"other","_meta":{"x":[1,2]},"__proto__":{"y":1}} ',
    meta: parseMeta('{ "name":"x" , "é":"\\u00e9" }'),
    more: { requestState: '"s"', inputResponses: '{"k":{}}', task: '{"ttl":1}' },
  },
]

test('a composed call is the same message as its parsed text', () => {
  for (const parts of calls) {
    const created = toolCall(parts)
    const parsed = parseElement(created.text)
    // The offsets exclude the space around a value.
    const argumentsText = created.text.slice(created.argumentsStart, created.argumentsEnd)
    assert.is(argumentsText, parts.arguments)
    const places = { argumentsStart: parsed.argumentsStart, argumentsEnd: parsed.argumentsEnd }
    assert.is(argumentsText.trim(), created.text.slice(places.argumentsStart, places.argumentsEnd))
    assert.equal({ ...created, ...places }, { ...parsed })
    assert.is(created.meta === undefined, parts.meta === undefined)
    assert.equal(created.meta, parsed.meta)
  }
})

test('arguments and answers of a client that are nested too deep are refused', () => {
  const deep = `${'['.repeat(1001)}${']'.repeat(1001)}`
  const [usual] = calls as [ToolCallParts]
  assert.throws(() => toolCall({ ...usual, arguments: `{"a":${deep}}` }), /nested deeper/)
  assert.throws(() => toolCall({ ...usual, more: { inputResponses: `{"a":${deep}}` } }), /nested deeper/)
  assert.throws(() => toolCall({ ...usual, arguments: '{' }), SyntaxError)
})

test.run()
