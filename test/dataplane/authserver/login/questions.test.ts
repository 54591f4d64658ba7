import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createQuestions } from '../../../../dataplane/authserver/login/questions.ts'
import { createSealer } from '../../../../dataplane/upstream-tokens/index.ts'

/** Checks that a consent page is valid only for its own request, browser, gateway and time. */

const [OLD, NEW] = ['old'.padEnd(32, 'x'), 'new'.padEnd(32, 'x')] as const
const ASKED = {
  request: 'client_id=c&state=the-state',
  clientId: 'c',
  clientName: 'Editor',
  redirectUri: 'https://c.example/cb',
  scope: 'tools:call',
  resource: 'https://gateway.example/mcp',
}
const HERE = { id: 'this-browser' }
const open = (secrets: readonly string[] = [OLD], salt = 'tools', lifeS = 600, page = 'consent page') =>
  createQuestions<typeof ASKED>(
    createSealer(() => secrets, salt),
    { page, lifeS },
  )

test('a sealed question comes back unchanged, and can’t be read', () => {
  const token = open().seal(ASKED, HERE)
  assert.equal(open().open(token, HERE), ASKED)
  assert.match(token, /^[\w.-]+$/)
  assert.not.match(Buffer.from(token, 'base64url').toString(), /the-state|Editor/)
  assert.is.not(open().seal(ASKED, HERE), token)
})

test('a sealed question is refused in another browser, at another gateway, on another page, or too late', () => {
  const token = open().seal(ASKED, HERE)
  assert.is(open().open(token, { id: 'another-browser' }), undefined)
  assert.is(open([OLD], 'others').open(token, HERE), undefined)
  assert.is(open([OLD], 'tools', 600, 'choice page').open(token, HERE), undefined)
  assert.is(open([OLD], 'tools', 0).open(open([OLD], 'tools', 0).seal(ASKED, HERE), HERE), undefined)
})

test('rotating a secret keeps open pages valid; removing it ends them', () => {
  const token = open([OLD]).seal(ASKED, HERE)
  assert.equal(open([NEW, OLD]).open(token, HERE), ASKED)
  assert.is(open([NEW]).open(token, HERE), undefined)
})

test('made-up texts are refused', () => {
  const [nonce = '', key = '', text = ''] = open().seal(ASKED, HERE).split('.')
  for (const token of [
    '',
    '..',
    `.${key}.${text}`,
    `${'!'.repeat(16)}.${key}.${text}`,
    `${'A'.repeat(16)}.${key}.${text}`,
    `${nonce}.${key}.`,
    `${nonce}.${key}.${'!'.repeat(100)}`,
    `${nonce}.${key}.${text.slice(0, -2)}`,
    `${nonce}.${key}.${text}AAAA`,
    `${nonce}.${'A'.repeat(key.length)}.${text}`,
    `${nonce}.__proto__.${text}`,
    '\0'.repeat(60_000),
  ])
    assert.is(open().open(token, HERE), undefined, token.slice(0, 40))
})

test.run()
