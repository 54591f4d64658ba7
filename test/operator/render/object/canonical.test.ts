import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { canonicalJson, sortedKeys } from '../../../../operator/render/object/canonical.ts'

for (const [what, value, text] of [
  ['keys in order', { a: 1, b: { c: [true, null] } }, '{"a":1,"b":{"c":[true,null]}}'],
  ['keys in another order', { b: 1, a: { d: 1, c: 2 } }, '{"a":{"c":2,"d":1},"b":1}'],
  ['only the last key out of order', { a: 1, c: 2, b: 3 }, '{"a":1,"b":3,"c":2}'],
  ['keys that are numbers, as texts', { 2: 'b', 10: 'a', x: 'c' }, '{"10":"a","2":"b","x":"c"}'],
  ['no undefined in objects', { a: undefined, b: 1, c: undefined }, '{"b":1}'],
  ['undefined in a list', [undefined, 1], '[null,1]'],
  ['quotation marks', { 'a"b': '"' }, '{"a\\"b":"\\""}'],
  ['nothing', undefined, 'null'],
] as const)
  test(`canonical JSON: ${what}`, () => assert.is(canonicalJson(value), text))

test('a copy with keys in order keeps lists as they are', () => {
  assert.is(JSON.stringify(sortedKeys({ b: [2, 1], a: { d: 1, c: 2 } })), '{"a":{"c":2,"d":1},"b":[2,1]}')
})

test.run()
