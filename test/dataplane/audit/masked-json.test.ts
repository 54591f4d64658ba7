/** What of a body gets into the audit log. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { maskedJson } from '../../../dataplane/audit/masked-json.ts'

const masked = (value: unknown, bytes = 1024) => maskedJson(JSON.stringify(value), bytes)

test('values of members that sound like secrets are left out, of whatever kind and depth', () => {
  const value = {
    city: 'Basel',
    password: 'hunter2',
    nested: { apiKey: { deep: ['hunter2', { a: 'hunter2' }] }, list: [{ access_token: 17 }, 'ok'] },
    secret: [1, 2],
    after: true,
  }
  const { text, isCut } = masked(value)
  assert.is(isCut, false)
  assert.equal(JSON.parse(text), {
    city: 'Basel',
    password: '[redacted]',
    nested: { apiKey: '[redacted]', list: [{ access_token: '[redacted]' }, 'ok'] },
    secret: '[redacted]',
    after: true,
  })
})

test('a name that is escaped is the same name', () => {
  assert.not.match(maskedJson('{"pass\\u0077ord" : "hunter2", "x\\q": "hunter2"}', 1024).text, /hunter2/)
})

test('credentials inside of texts, and keys of URLs, are left out', () => {
  const { text } = masked({
    note: 'use Bearer abcdefghijklmnop, or eyJhbGciOiJIUzI1.eyJzdWIiOiJ4.c2ln',
    at: 'https://user:hunter2@host/path?key=hunter2#hunter2',
  })
  assert.is(text, '{"note":"use [redacted], or [redacted]","at":"https://host/path"}')
})

test('it is cut at bytes, never within a character', () => {
  assert.equal(masked('abc', 5), { text: '"abc"', isCut: false })
  assert.equal(masked('abcd', 5), { text: '"abcd', isCut: true })
  for (let bytes = 0; bytes < 11; bytes++) {
    const { text, isCut } = masked('äöü€', bytes)
    assert.ok(Buffer.byteLength(text) <= bytes)
    assert.not.match(text, /\u{fffd}/u)
    assert.is(isCut, true)
  }
})

test('what is no JSON is masked as far as it looks like it', () => {
  for (const text of [
    '{"password":"hunter2',
    '{"token": [[[["hunter2"',
    '"a":1,"secret":hunter2}',
    '{"password" \n:\t "hunter2"',
  ])
    assert.not.match(maskedJson(text, 1024).text, /hunter2/)
})

test('a secret that would be cut is left out as well', () => {
  const long = `Bearer ${'x'.repeat(3000)}`
  for (const bytes of [8, 100, 2000]) assert.not.match(masked({ long }, bytes).text, /xxxx/)
})

test('the time is linear in what is written, and in what is left out', () => {
  const hostile = [
    `{"a":"${'eyJaaaaaaaa-'.repeat(400_000)}"}`,
    `{"password":${'['.repeat(2_000_000)}`,
    `{"a":"${'\\"'.repeat(2_000_000)}"}`,
    `{${' '.repeat(2_000_000)}"x"${' '.repeat(2_000_000)}:1}`,
    `[${'"a" ,'.repeat(800_000)}`,
    `{"a":"${'Bearer '.repeat(600_000)}"}`,
    `{"a":"${'x://'.repeat(800_000)}"}`,
  ]
  for (const text of hostile) {
    const began = performance.now()
    maskedJson(text, 1024 * 1024)
    const took = performance.now() - began
    // Quadratic work would take hours.
    assert.ok(took < 20_000, `${took} ms for ${text.slice(0, 20)}`)
  }
})

test.run()
