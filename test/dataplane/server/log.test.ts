import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { recordLog } from '../../support/kept-log.ts'

const TOKEN = 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJlLXNpZ25hdHVyZQ'

test('lines are JSON with time, level and name', () => {
  const { log, lines } = recordLog()
  log.info({ backend: 'one' }, 'hello')
  const [line] = lines
  assert.is(line?.['level'], 'info')
  assert.is(line?.['name'], 'test')
  assert.is(line?.['msg'], 'hello')
  assert.is(line?.['backend'], 'one')
  assert.match(String(line?.['time']), /^\d{4}-\d\d-\d\dT/)
  assert.is(line?.['pid'], undefined)
})

for (const [what, write] of [
  ['a field', { password: 'hunter2-hunter2' }],
  ['a header', { headers: { authorization: 'hunter2-hunter2', cookie: 'a=hunter2-hunter2' } }],
  ['a header of a request', { request: { headers: { Authorization: 'hunter2-hunter2' } } }],
  ['a header deep inside', { answer: { of: { request: { headers: { cookie: 'hunter2-hunter2' } } } } }],
  ['a field that is an object', { secret: { value: 'hunter2-hunter2' } }],
  ['a token response', { body: { access_token: 'hunter2-hunter2', refresh_token: 'hunter2-hunter2' } }],
  ['a text with a bearer token', { note: 'sent Bearer hunter2-hunter2 to it' }],
  ['a text with basic credentials', { note: 'Authorization: Basic aHVudGVyMi1odW50ZXIyOmh1bnRlcjI=' }],
  ['a text with a JSON Web Token', { note: `it was ${TOKEN}, they said` }],
  ['an error', { err: new Error(`refused ${TOKEN}`, { cause: new Error(`Bearer hunter2-hunter2`) }) }],
] as const)
  test(`secrets are not logged: ${what}`, () => {
    const { log, text } = recordLog()
    log.error(write, 'a line')
    log.child(write).error('a line of a child')
    assert.not.match(text(), /hunter2-hunter2|aHVudGVyMi|eyJhbGci/)
    assert.match(text(), /\[redacted\]/)
  })

test('a line without secrets is unchanged, also if its texts look like fields', () => {
  const { log, text } = recordLog()
  log.info({ note: 'sent {"password":"x"}', count: 12345678901234567890n.toString() }, 'a "token": none')
  assert.match(
    text(),
    String.raw`"note":"sent {\"password\":\"x\"}","count":"12345678901234567890","msg":"a \"token\": none"`,
  )
})

test.run()
