import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { canonicalJson } from '../../../../dataplane/gateway/call/suspended/request-state.ts'

for (const [one, other] of [
  ['{"a":1,"b":[1,{"c":2,"d":3}]}', ' { "b" : [ 1.0 , { "d":3e0, "c":2 } ],\n\t"a":1 }'],
  ['"\\u00e9\\/"', '"é/"'],
  ['{"é":1}', '{"\\u00e9":1}'],
  ['[-0.5,0.25,100]', '[-5e-1,25E-2,1.0e+2]'],
  ['{}', ' { } '],
  ['[]', '[ ]'],
  ['[[],{}]', '[ [ ] , { } ]'],
  ['null', ' null '],
])
  test(`${one} and ${JSON.stringify(other)} are equal`, () =>
    assert.is(canonicalJson(one as string), canonicalJson(other as string)))

for (const [one, other] of [
  ['{"a":1,"b":2}', '{"a":2,"b":1}'],
  ['[1,2]', '[2,1]'],
  ['[[1],2]', '[[1,2]]'],
  ['{"a":{"b":1}}', '{"a":{},"b":1}'],
  ['"1"', '1'],
  ['"a,b"', '"a","b"'],
  ['["a,b"]', '["a","b"]'],
  ['"{}"', '{}'],
  ['true', '"true"'],
  ['12345678901234567890', '12345678901234567891'],
  ['"a"', '"a "'],
])
  test(`${one} and ${other} differ`, () => assert.is.not(canonicalJson(one as string), canonicalJson(other as string)))

test('the canonical text parses to the same value', () => {
  const text = '{"z":[1,2.5,{"y":null,"x":[true,false,"\\u0000\\"\\\\"]}],"a":"é","m":{}}'
  assert.equal(JSON.parse(canonicalJson(text)), JSON.parse(text))
})

test('deep and wide values do not overflow the stack', () => {
  const deep = 500_000
  for (const [open, close] of [
    ['[', ']'],
    ['{"a":', '}'],
  ] as const) {
    const text = `${open.repeat(deep)}1${close.repeat(deep)}`
    assert.is(Buffer.from(canonicalJson(text)).length, text.length)
  }
  const wide = `[${'{"b":1,"a":2},'.repeat(300_000)}0]`
  assert.is(canonicalJson(wide).length, wide.length)
})

test.run()
