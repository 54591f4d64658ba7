import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { decodeCursor, encodeCursor, queryDigest } from '../../../../dataplane/registry/catalog/cursor.ts'

const position = { name: 'com.example/ü~x', version: '1.0.0-β+1/2 "' }
const digest = queryDigest({ registry: 'main', search: 'a', version: undefined, includeDeleted: false })

test('a cursor gives its position back and needs no escaping in a URL', () => {
  const cursor = encodeCursor(position, digest)
  assert.match(cursor, /^[\w-]+$/)
  assert.equal(decodeCursor(cursor, digest), position)
})

test('the digest depends on every part of the query and not on their order', () => {
  const others = [
    { registry: 'other', search: 'a', version: undefined, includeDeleted: false },
    { registry: 'main', search: 'b', version: undefined, includeDeleted: false },
    { registry: 'main', search: 'a', version: 'latest', includeDeleted: false },
    { registry: 'main', search: 'a', version: undefined, includeDeleted: true },
  ]
  assert.is(new Set([digest, ...others.map(queryDigest)]).size, others.length + 1)
  assert.is(queryDigest({ includeDeleted: false, version: undefined, search: 'a', registry: 'main' }), digest)
})

const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const refused: Record<string, string> = {
  'of another query': encodeCursor(position, queryDigest({ registry: 'other' })),
  'not base64url': 'a+b=',
  'not JSON': Buffer.from('hello').toString('base64url'),
  'cut off': encodeCursor(position, digest).slice(0, -3),
  'too short a list': base64([digest, 'a']),
  'no strings': base64([digest, 1, 2]),
  'an object': base64({ 0: digest, 1: 'a', 2: 'b', length: 3 }),
  'too long': base64([digest, 'a'.repeat(4096), '1']),
}
for (const [what, cursor] of Object.entries(refused))
  test(`refused: ${what}`, () => {
    assert.is(decodeCursor(cursor, digest), undefined)
  })

test('a position that no database accepts is refused', () => {
  const digest = queryDigest({})
  for (const position of [
    { name: 'a\0', version: '1' },
    { name: 'a', version: '1\0' },
  ])
    assert.is(decodeCursor(encodeCursor(position, digest), digest), undefined)
})

test.run()
