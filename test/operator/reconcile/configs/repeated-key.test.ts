import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { repeatedKey } from '../../../../operator/reconcile/configs/mcp-authz-config.ts'

for (const [text, found] of [
  ['{}', undefined],
  ['"a"', undefined],
  ['1', undefined],
  ['{"a":{"a":1},"b":{"a":1}}', undefined],
  ['[{"a":1},{"a":1},["a","a"]]', undefined],
  ['{"a":"a","b":["b","c"],"c":"b"}', undefined],
  ['{"a":"\\"a\\":","b":"{[,"}', undefined],
  ['{"a":1,"a":1}', '/a'],
  ['{"a":1 , "\\u0061" : 1}', '/a'],
  ['{"":1,"":1}', '/'],
  ['{"__proto__":1,"__proto__":1}', '/__proto__'],
  ['{"a":[],"b":{},"a":1}', '/a'],
  ['[0,"x",{"a/b":[{"c":1,"\\\\":2,"c":3}]}]', '/2/a~1b/0/c'],
  ['{"a":{"b":[1,2]},"c":[[],[{"d":1,"d":2}]]}', '/c/1/0/d'],
] as const)
  test(`${text} has ${found ?? 'no key'} twice`, () => {
    JSON.parse(text)
    assert.is(repeatedKey(text), found)
  })

test('a mebibyte of any form is read to its end', () => {
  const size = 1 << 20
  const keys = Array.from({ length: size / 16 }, (_, index) => `"${index}":""`).join(',')
  const texts = [
    `"${'\\"'.repeat(size / 2)}"`,
    `{${keys}}`,
    `[${'[],'.repeat(size / 3)}[]]`,
    '['.repeat(size / 2) + ']'.repeat(size / 2),
  ]
  for (const text of texts) {
    JSON.parse(text)
    assert.is(repeatedKey(text), undefined)
  }
})

test.run()
