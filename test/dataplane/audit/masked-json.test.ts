/** Checks which parts of a body are written to the audit log. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { maskedJson } from '../../../dataplane/audit/masked-json.ts'

const mask = (value: unknown, bytes = 1024) => maskedJson(JSON.stringify(value), bytes)

test('values of members that sound like secrets are left out, of whatever kind and depth', () => {
  const value = {
    city: 'Basel',
    password: 'hunter2',
    nested: { apiKey: { deep: ['hunter2', { a: 'hunter2' }] }, list: [{ access_token: 17 }, 'ok'] },
    secret: [1, 2],
    after: true,
  }
  const { text, isCut } = mask(value)
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

test('credentials inside texts, and keys in URLs, are left out', () => {
  const { text } = mask({
    note: 'use Bearer abcdefghijklmnop, or eyJhbGciOiJIUzI1.eyJzdWIiOiJ4.c2ln',
    at: 'https://user:hunter2@host/path?key=hunter2#hunter2',
  })
  assert.is(text, '{"note":"use [redacted], or [redacted]","at":"https://host/path"}')
})

test('a text that is JSON is masked as JSON, as deep as it goes, and stays as it is written', () => {
  const inner = { password: 'hunter2', city: 'Basel', list: [{ apiKey: { a: 'hunter2' } }] }
  const expected = { password: '[redacted]', city: 'Basel', list: [{ apiKey: '[redacted]' }] }
  const texts = [
    JSON.stringify(inner),
    JSON.stringify(inner, null, 2),
    ` \n${JSON.stringify(inner)}\n`,
    '{"pass\\u0077ord":"hunter2"}',
  ]
  for (const text of texts) {
    const { result } = JSON.parse(mask({ result: [{ type: 'text', text }] }, 4096).text)
    assert.equal(JSON.parse(result[0].text), text.includes('city') ? expected : { password: '[redacted]' })
    if (text.includes('\n  ')) assert.match(result[0].text, '",\n  "city": "Basel",\n  "list": [\n')
  }
  let nested: unknown = inner
  for (let depth = 0; depth < 12; depth++) {
    nested = { text: JSON.stringify(nested) }
    assert.not.match(mask(nested, 1024 * 1024).text, /hunter2/)
  }
  const two = `${JSON.stringify(inner)}\n${JSON.stringify(inner)}\n`
  assert.not.match(mask({ text: two }).text, /hunter2/)
})

test('a text that is no JSON is masked by the same words, and the rest of it stays', () => {
  const texts = [
    'The answer:\n```json\n{"password": "hunter2", "city": "Basel"}\n```',
    'He said "fine. {"password":"hunter2","city":"Basel"}',
    '[note] "a" {"apiKey": {"deep": ["hunter2}", 1]}, "city": "Basel"}',
    "{'password': 'hunter2', 'city': 'Basel'}",
    "{'secret': {'a': 'x}hunter2'}, 'city': 'Basel'}",
    'password: hunter2 and hunter2\ncity: Basel',
    'password = hunter2\ncity = Basel',
    'export DB_PASSWORD=hunter2\nexport CITY=Basel',
    'city=Basel&access_token=hunter2',
    'Authorization: Basic hunter2\r\nCity: Basel\r\n',
    'Cookie: a=hunter2; b=hunter2\nCity: Basel',
    '<city>Basel</city><password>hunter2</password>',
    '<city name="Basel" secret="hunter2"/>',
    'secrets:\n  db: hunter2\n  deep:\n    hunter2: hunter2\ncity: Basel',
    'tokens:\n- hunter2\n- hunter2\ncity: Basel',
    'private_key: |\n  hunter2\n\n  hunter2\ncity: Basel',
    'password:\nhunter2\ncity: Basel',
    'Basel\n-----BEGIN RSA PRIVATE KEY-----\nhunter2\nhunter2\n-----END RSA PRIVATE KEY-----\nBasel',
    '**Password**: hunter2\n**City**: Basel',
    'log: {\\"token\\":\\"hunter2\\",\\"city\\":\\"Basel\\"}',
    '{"password":"hunter2","city":"Basel"} and so on',
    '{"city":"Basel","note":nothing,"password":"hunter2"}',
  ]
  for (const text of texts) {
    const output = mask({ text }).text
    assert.not.match(output, /hunter2/, `${text} is ${output}`)
    assert.match(output, 'Basel', `${text} is ${output}`)
    const bare = maskedJson(text, 1024).text
    assert.not.match(bare, /hunter2/, `${text} is ${bare}`)
  }
  for (const text of [
    'We pass it on.',
    'keys, tokens and secrets',
    'the key\nis below',
    '[1] see {2}: "x"',
    'a: b, c = d',
  ])
    assert.is(JSON.parse(mask({ text }).text).text, text)
})

test('a text that is cut within is masked up to its end', () => {
  const inner = JSON.stringify({
    city: 'Basel',
    deep: JSON.stringify({ 'pass"word': 'hunter2hunter2', other: 'ü\u0007' }),
  })
  const whole = JSON.stringify({ result: { content: [{ type: 'text', text: inner }] } })
  for (let length = 0; length <= whole.length; length++) {
    const { text } = maskedJson(whole.slice(0, length), 1024)
    assert.not.match(text, /hunter|hu/, `${length}: ${text}`)
    for (const bytes of [20, 60, 100]) assert.not.match(maskedJson(whole.slice(0, length), bytes).text, /hu/)
  }
})

test('it is cut at bytes, never within a character', () => {
  assert.equal(mask('abc', 5), { text: '"abc"', isCut: false })
  assert.equal(mask('abcd', 5), { text: '"abcd', isCut: true })
  for (let bytes = 0; bytes < 11; bytes++) {
    const { text, isCut } = mask('äöü€', bytes)
    assert.ok(Buffer.byteLength(text) <= bytes)
    assert.not.match(text, /\u{fffd}/u)
    assert.is(isCut, true)
  }
})

test('a text that is not valid JSON is masked as far as it looks like JSON', () => {
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
  for (const bytes of [8, 100, 2000]) assert.not.match(mask({ long }, bytes).text, /xxxx/)
})

test('the time grows linearly with the written text and with the text that is left out', () => {
  const hostile = [
    `{"a":"${'eyJaaaaaaaa-'.repeat(400_000)}"}`,
    `{"password":${'['.repeat(2_000_000)}`,
    `{"a":"${'\\"'.repeat(2_000_000)}"}`,
    `{${' '.repeat(2_000_000)}"x"${' '.repeat(2_000_000)}:1}`,
    `[${'"a" ,'.repeat(800_000)}`,
    `{"a":"${'Bearer '.repeat(600_000)}"}`,
    `{"a":"${'x://'.repeat(800_000)}"}`,
    `{"a":"${'key'.repeat(800_000)}"}`,
    `{"a":"${'key '.repeat(800_000)}"}`,
    `{"a":"key${'\\\\'.repeat(800_000)}"}`,
    `{"a":"${'key=\\n'.repeat(400_000)}"}`,
    `{"a":"${'key:\\"'.repeat(400_000)}"}`,
    `{"a":"${'key\\"{['.repeat(400_000)}"}`,
    `{"a":"${'key: |\\n '.repeat(400_000)}"}`,
    `{"a":"${'-----BEGIN PRIVATE KEY-----'.repeat(100_000)}"}`,
    `{"a":"${'<key>'.repeat(400_000)}"}`,
    `{"a":"{${'1'.repeat(2_000_000)}x"}`,
    `{"a":"[${'1 '.repeat(1_000_000)}x"}`,
    `{"a":"[${'[1]'.repeat(1_000_000)}x"}`,
    `1${'1'.repeat(2_000_000)}x`,
  ]
  for (const text of hostile) {
    const began = performance.now()
    maskedJson(text, 1024 * 1024)
    const took = performance.now() - began
    // Quadratic time would take hours.
    assert.ok(took < 20_000, `${took} ms for ${text.slice(0, 20)}`)
  }
})

test.run()
