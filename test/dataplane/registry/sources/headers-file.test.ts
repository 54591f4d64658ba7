import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { buildHeader, parseHeaders } from '../../../../dataplane/registry/sources/http/poll-api.ts'

test('a header has its name in lower case', () => {
  assert.equal(buildHeader('X-Key', 'a b'), ['x-key', 'a b'])
  assert.equal(parseHeaders('# c\nX-Key: a\n\nx-key: b\n'), { 'x-key': 'b' })
})

test('a value of several lines does not make a second header', () => {
  assert.throws(() => buildHeader('X-Key', 'a\nX-Other: b'), /the file of X-Key holds no header value/)
})

test('a name that begins with # is a header here', () => {
  assert.equal(buildHeader('#x', 'a'), ['#x', 'a'])
})

test.run()
