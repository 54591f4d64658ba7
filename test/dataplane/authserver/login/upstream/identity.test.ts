/** Tests how answers of any content are parsed. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { identityIn, jwtPayload, valueAt } from '../../../../../dataplane/authserver/login/upstream/identity.ts'
import {
  errorIn,
  parseAnswer,
  readSeconds,
  standardAnswer,
} from '../../../../../dataplane/authserver/login/upstream/token-answer.ts'

const buildJwt = (payload: unknown) => `e30.${Buffer.from(JSON.stringify(payload)).toString('base64url')}.c2ln`

test('a path finds own members of the document alone', () => {
  const document = JSON.parse('{"a":{"b":{"c":1}},"a.b":2,"list":[{"x":3}],"own":{"__proto__":{"y":4}}}')
  const table: readonly [string, unknown][] = [
    ['a.b.c', 1],
    ['a.b', 2],
    ['list.0.x', 3],
    ['own.__proto__.y', 4],
    ['__proto__', undefined],
    ['constructor', undefined],
    ['constructor.name', undefined],
    ['a.__proto__.toString', undefined],
    ['a.b.c.toFixed', undefined],
    ['', undefined],
    ['.', undefined],
    ['a..b', undefined],
    [`a${'.b'.repeat(126)}`, undefined],
  ]
  for (const [path, value] of table) assert.equal(valueAt(document, path), value, path)
  for (const nothing of [undefined, null, 'text', 7, true]) assert.is(valueAt(nothing, 'length'), undefined)
})

test('a path continues into the payload of a JWT if allowed, and into no other text', () => {
  const document = { id_token: buildJwt({ sub: 'u', inner: buildJwt({ sub: 'v' }) }), text: 'a.b', four: 'a.b.c.d' }
  assert.is(valueAt(document, 'id_token.sub'), undefined)
  assert.is(valueAt(document, 'id_token.sub', jwtPayload), 'u')
  assert.is(valueAt(document, 'id_token.inner.sub', jwtPayload), 'v')
  for (const path of ['text.length', 'four.sub', 'id_token.length'])
    assert.is(valueAt(document, path, jwtPayload), undefined)
  for (const text of ['', '..', 'a.b.c', 'a.!.c', `a.${Buffer.from('null').toString('base64url')}.c`])
    assert.is(valueAt({ text }, 'text.sub', jwtPayload), undefined, text)
})

test('the first configured field that is present names the user', () => {
  const paths = { subject: ['id', 'login'], name: ['name', 'login'], email: ['email'] }
  assert.equal(identityIn({ id: 7, login: 'l' }, paths), { subject: '7', name: 'l' })
  assert.equal(identityIn({ id: null, login: 'l', name: '', email: 3 }, paths), { subject: 'l', name: 'l' })
  assert.equal(identityIn({ id: '', login: 'l', email: 'e' }, paths), { subject: 'l', name: 'l' })
  const email = { email: 'e', email_verified: true }
  assert.equal(identityIn({ id: '', login: 'l', ...email }, paths), { subject: 'l', name: 'l', email: 'e' })
  for (const email_verified of [false, 'false', 1, null, {}, undefined])
    assert.is(identityIn({ id: 1, email: 'e', email_verified }, paths).email, undefined, String(email_verified))
  for (const id of [{}, [], true, 1.5, 2 ** 53, -(2 ** 53), Number.NaN, 'x'.repeat(257)])
    assert.throws(() => identityIn({ id, login: 'l' }, paths), 'no usable subject')
  assert.throws(() => identityIn({}, paths), 'no usable subject')
  assert.throws(() => identityIn(JSON.parse('{"__proto__":{"id":1}}'), paths), 'no usable subject')
})

test('answers are normalised to the standard form', () => {
  const nested = { accessTokenPath: 'a.t', refreshTokenPath: 'a.r', expiresInPath: 'a.e', scopePath: 'a.s' }
  assert.equal(standardAnswer({ a: { t: 'x', r: 'y', e: '60', s: 'p,q r' }, token_type: 'user' }, nested), {
    access_token: 'x',
    token_type: 'Bearer',
    refresh_token: 'y',
    expires_in: 60,
    scope: 'p q r',
  })
  assert.equal(standardAnswer({ access_token: 'x', scope: '', expires_in: -1 }, undefined), {
    access_token: 'x',
    token_type: 'Bearer',
  })
  assert.equal(standardAnswer({ access_token: 'x', a: { r: 'y' }, token_type: 'user' }, { refreshTokenPath: 'a.r' }), {
    access_token: 'x',
    token_type: 'Bearer',
    refresh_token: 'y',
  })
  assert.equal(standardAnswer(null, nested), { access_token: undefined, token_type: 'Bearer' })
  const form = parseAnswer('access_token=x&__proto__=y', 'Application/X-WWW-Form-Urlencoded; charset=utf-8')
  assert.is(standardAnswer(form, undefined).access_token, 'x')
  // Some providers send a form with another media type, or JSON with that of a form.
  assert.equal(parseAnswer('scope=a+b&access_token=x', 'text/plain'), { scope: 'a b', access_token: 'x' })
  assert.equal(parseAnswer('{"access_token":"x"}', 'application/x-www-form-urlencoded'), { access_token: 'x' })
  for (const text of ['', 'x', 'scope=a', '<a href="?access_token=x">', 'Your access_token=x', '<p>&error=y'])
    assert.is(parseAnswer(text, 'text/plain'), undefined, text)
})

test('lifetimes are seconds or absent', () => {
  for (const [value, seconds] of [
    [60, 60],
    ['60', 60],
    [0.5, 0.5],
    [0, undefined],
    [-1, undefined],
    [1e308, undefined],
    ['1e308', undefined],
    [Number.POSITIVE_INFINITY, undefined],
    [null, undefined],
    [{}, undefined],
    [[60], undefined],
  ])
    assert.is(readSeconds(value), seconds, String(value))
})

test('errors are recognised at any status and mapped to a few codes', () => {
  assert.is(errorIn({ error: 'bad_refresh_token' }), 'invalid_grant')
  assert.is(errorIn({ error: 'whatever it says' }), 'invalid_request')
  assert.is(errorIn({ error: { message: 'x' } }), 'invalid_request')
  for (const document of [{}, { error: null }, { error: '' }, [], null, 'error'])
    assert.is(errorIn(document), undefined)
})

test.run()
