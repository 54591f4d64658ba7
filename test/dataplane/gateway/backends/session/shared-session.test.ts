/** Tests the record that one replica writes about a session with a backend, and how another replica reads it. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  parseSharedSession,
  sharedSessionText,
} from '../../../../../dataplane/gateway/backends/session/shared-session.ts'
import { buildVariants } from '../../../../support/gateway/wrong-values.ts'

const URL = 'http://b.example/mcp?key=s3cret'
const opened = { sessionId: 's-1', revision: '2025-11-25', capabilities: { tools: {} } }

test('a stored session can be read again, and contains no URL', () => {
  assert.equal(parseSharedSession(sharedSessionText(opened, URL), URL), opened)
  const without = { ...opened, sessionId: undefined }
  assert.equal(parseSharedSession(sharedSessionText(without, URL), URL), without)
  assert.not.match(sharedSessionText(opened, URL), /example|s3cret/)
})

test('a stored session of another URL is not used', () => {
  assert.is(parseSharedSession(sharedSessionText(opened, URL), 'http://b.example/mcp?key=other'), undefined)
})

test('any JSON in place of a stored session is either a valid session or none', () => {
  const note = JSON.parse(sharedSessionText(opened, URL))
  let none = 0
  for (const { text, what } of buildVariants(note)) {
    const session = parseSharedSession(text, URL)
    if (session === undefined) {
      none++
      continue
    }
    const { sessionId, revision, capabilities } = session
    assert.ok(sessionId === undefined || /^[\x21-\x7e]{1,1024}$/.test(sessionId), what)
    assert.match(revision, /^\d{4}-\d\d-\d\d$/, what)
    assert.ok(typeof capabilities === 'object' && capabilities !== null && !Array.isArray(capabilities), what)
  }
  assert.ok(none > 50, `${none}`)
  for (const text of ['', 'x', 'null', '[]', '7', '"x"', '{}', '{']) assert.is(parseSharedSession(text, URL), undefined)
})

test.run()
