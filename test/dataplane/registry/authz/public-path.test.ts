import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { isPublicPath } from '../../../../dataplane/registry/settings/identity.ts'

const OPEN = ['/registry/public', '/status/']

for (const path of [
  '/registry/public',
  '/registry/public/',
  '/registry/public/v0.1/servers',
  '/registry/public/v0.1/servers/com.example%2Fweather/versions/latest',
  '/registry/public/v0.1/servers/a%2Fb/versions/1.0.0%2B1',
  '/status',
  '/status/x',
])
  test(`public: ${path}`, () => {
    assert.is(isPublicPath(path, OPEN), true)
  })

for (const path of [
  '/',
  '/registry',
  '/registry/publicx',
  '/registry/public2/v0.1/servers',
  '/registry/PUBLIC',
  '//registry/public',
  '/registry//public',
  '/registry/public/../private/v0.1/servers',
  '/registry/public/./x',
  '/registry/public/..%2fprivate/v0.1/servers',
  '/registry/public%2f..%2fprivate',
  '/registry/public/%2e%2e/private',
  '/registry/public/%2E%2E/private',
  '/registry/public/%252e%252e/private',
  '/registry/public/%25252e%25252e%25252fprivate',
  '/registry/public/..\\private',
  '/registry/public/..%5cprivate',
  '/registry/publi%63/v0.1/servers',
  '/registry%2fpublic',
  '/registry/public/%zz',
  '/v1/me',
  '/statusx',
])
  test(`not public: ${path}`, () => {
    assert.is(isPublicPath(path, OPEN), false)
  })

test('nothing is public by default', () => {
  assert.is(isPublicPath('/registry/public', []), false)
})

test.run()
