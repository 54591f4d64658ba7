import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { hostOf } from '../../../dataplane/server/hosts.ts'

/** Parses an authority as the URL standard does. */
const byUrl = (host: string) => URL.parse(`http://${host}`)?.hostname.replace(/\.$/, '') || undefined

test('a Host header means the host that a URL with it would reach', () => {
  const names = [
    'a.example',
    'A.Example',
    'a.example.',
    'a..b',
    'a-.b',
    'xn--mnchen-3ya.de',
    'xn--a.de',
    'a.xn--b',
    'a_b',
  ]
  const numbers = ['127.0.0.1', '256.1.1.1', '01.2.3.4', '1.2.3', '0x7f.1', '2130706433', 'a.1', 'a.0x1', '1.b']
  for (const name of [...names, ...numbers, '[::1]', '[::ffff:127.0.0.1]', 'localhost'])
    for (const port of ['', ':', ':0', ':80', ':00080', ':65535', ':65536', ':99999', ':123456', ':x'])
      assert.is(hostOf(`${name}${port}`), byUrl(`${name}${port}`), `${name}${port}`)
})

test('an invalid host is refused', () => {
  for (const header of ['', ' ', 'a b', 'a/b', 'user@a', 'a?b', 'a#b', '%61', ':80'])
    assert.is(hostOf(header), undefined)
})

test.run()
