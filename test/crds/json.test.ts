import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { copyJson } from '../../crds/settings/json.ts'

test('a copy of a JSON value shares nothing with it and has the same members in the same order', () => {
  const text = '{"b":[1,null,{"c":"x"}],"__proto__":{"polluted":[true]},"a":{},"0":false}'
  const value = JSON.parse(text)
  const copy = copyJson(value)
  assert.is(JSON.stringify(copy), JSON.stringify(value))
  assert.ok(Object.hasOwn(copy, '__proto__'))
  assert.is(copy.polluted, undefined)
  copy.b[2].c = 'changed'
  copy.a.added = 1
  Object.getOwnPropertyDescriptor(copy, '__proto__')?.value['polluted'].push(1)
  assert.is(JSON.stringify(value), JSON.stringify(JSON.parse(text)))
})

test.run()
