/** Checks which redirect URIs match a registered one (RFC 8252 section 7.3, RFC 9700 section 2.1). */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { isRedirectAllowed, isWebSite } from '../../../../dataplane/authserver/clients/redirect-uris.ts'

const ALLOWED: readonly (readonly [registered: string, requested: string])[] = [
  ['http://127.0.0.1/cb', 'http://127.0.0.1:1/cb'],
  ['http://127.0.0.1:8080/cb', 'http://127.0.0.1/cb'],
  ['http://127.0.0.1:8080/cb', 'http://127.0.0.1:9090/cb'],
  ['http://[::1]/cb', 'http://[::1]:50000/cb'],
  ['http://[::1]:1/cb?a=b', 'http://[::1]/cb?a=b'],
  ['http://localhost/cb', 'http://LocalHost:3000/cb'],
  ['http://LOCALHOST:1/cb', 'http://localhost:2/cb'],
  ['http://localhost', 'http://localhost:5'],
]

const REFUSED: readonly (readonly [registered: string, requested: string])[] = [
  // Any port matches only for http on loopback.
  ['https://localhost/cb', 'https://localhost:3000/cb'],
  ['https://127.0.0.1/cb', 'http://127.0.0.1/cb'],
  ['http://127.0.0.1/cb', 'https://127.0.0.1/cb'],
  ['https://app.example/cb', 'https://app.example:444/cb'],
  ['com.example.app://localhost/cb', 'com.example.app://localhost:1/cb'],
  // The names of loopback do not match each other.
  ['http://localhost/cb', 'http://127.0.0.1/cb'],
  ['http://127.0.0.1/cb', 'http://localhost/cb'],
  ['http://127.0.0.1/cb', 'http://[::1]/cb'],
  ['http://[::1]/cb', 'http://[0:0:0:0:0:0:0:1]/cb'],
  ['http://127.0.0.1/cb', 'http://127.1/cb'],
  ['http://127.0.0.1/cb', 'http://127.0.0.1./cb'],
  ['http://localhost/cb', 'http://localhost.:1/cb'],
  // Path and query must match exactly.
  ['http://localhost/cb', 'http://localhost:1/CB'],
  ['http://localhost/a/b', 'http://localhost:1/a%2Fb'],
  ['http://localhost/a%2Fb', 'http://localhost:1/a%2fb'],
  ['http://localhost/cb', 'http://localhost:1/cb/'],
  ['http://localhost/cb', 'http://localhost:1/x/../cb'],
  ['http://localhost/cb', 'http://localhost:1/cb?'],
  ['http://localhost/cb?a=1&b=2', 'http://localhost:1/cb?b=2&a=1'],
  ['http://localhost', 'http://localhost:1/'],
  ['http://localhost/cb', 'http://localhost:1/cb#'],
  ['http://localhost/cb', 'http://localhost:1/cb#x'],
  ['http://localhost/cb', 'http://user@localhost:1/cb'],
  ['http://localhost/cb', 'http://localhost:1@evil.example/cb'],
  ['http://localhost/cb', 'http://localhost:/cb'],
  ['http://localhost/cb', 'http://localhost:065536/cb'],
  ['http://localhost/cb', 'http://localhost:1\\@evil.example/cb'],
]

test('a public client may use any port of a loopback address that it has registered', () => {
  for (const [registered, requested] of ALLOWED)
    assert.ok(isRedirectAllowed([registered], requested, true), `${registered} ${requested}`)
})

test('only an https address of another computer counts as a web site', () => {
  for (const uri of [
    'https://app.example/cb',
    'https://localhost.example/cb',
    'https://127.example/cb',
    'https://[2001:db8::1]/',
  ])
    assert.ok(isWebSite(uri), uri)
  const others = [
    'http://127.0.0.1:1/cb',
    'cursor://app/cb',
    'com.example:/cb',
    'https://localhost/cb',
    'https://LOCALHOST.:1/cb',
  ]
  const more = [
    'https://a.localhost/',
    'https://127.1/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://0/',
    'https://[::]/',
  ]
  for (const uri of [...others, ...more]) assert.not.ok(isWebSite(uri), uri)
})

test('every other redirect URI must equal a registered one', () => {
  for (const [registered, requested] of REFUSED) {
    assert.not.ok(isRedirectAllowed([registered], requested, true), `${registered} ${requested}`)
    assert.ok(isRedirectAllowed([requested], requested, true), requested)
  }
})

test('a client with a secret may not use another port', () => {
  for (const [registered, requested] of ALLOWED)
    assert.not.ok(isRedirectAllowed([registered], requested, false), requested)
})

test('an equal redirect URI is found in whatever order they are registered', () => {
  const uris = ['http://localhost/cb', 'http://localhost:3000/cb', 'https://app.example/cb']
  for (const registered of [uris, uris.toReversed()])
    for (const requested of [...uris, 'http://localhost:1/cb'])
      assert.ok(isRedirectAllowed(registered, requested, true), requested)
})

test.run()
