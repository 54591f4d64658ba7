import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { sourceAddress } from '../../../dataplane/audit/lines.ts'
import { trustedNetworks } from '../../../dataplane/config/check/address.ts'

/** Checks which address a request is attributed to, and which proxies are trusted for it. */

const findAddress = (peer: string | undefined, forwarded?: string | string[], trusted: readonly string[] = []) =>
  sourceAddress(
    {
      socket: { remoteAddress: peer },
      headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded as string },
    },
    trustedNetworks(trusted),
  )

const PROXIES = ['10.0.0.0/8', '2001:db8:1::/48', '192.0.2.7']

test('the address is the peer’s, whatever the header says, unless the peer is a trusted proxy', () => {
  assert.is(findAddress('203.0.113.9', '198.51.100.1'), '203.0.113.9')
  assert.is(findAddress('203.0.113.9', '198.51.100.1', PROXIES), '203.0.113.9')
  assert.is(findAddress('::ffff:203.0.113.9'), '203.0.113.9')
  assert.is(findAddress('fe80::1%eth0'), 'fe80::1')
  assert.is(findAddress(undefined), undefined)
})

test('behind trusted proxies it is the last address in the header that is not a trusted proxy', () => {
  for (const peer of ['10.1.2.3', '::ffff:10.1.2.3', '2001:db8:1::9', '192.0.2.7'])
    assert.is(findAddress(peer, '1.1.1.1, 198.51.100.1', PROXIES), '198.51.100.1')
  assert.is(findAddress('10.1.2.3', '1.1.1.1, 198.51.100.1, 10.9.9.9,2001:db8:1::1', PROXIES), '198.51.100.1')
  assert.is(findAddress('10.1.2.3', ['1.1.1.1', '198.51.100.1'], PROXIES), '198.51.100.1')
  assert.is(findAddress('10.1.2.3', '2001:db8:2::1', PROXIES), '2001:db8:2::1')
})

test('if all addresses are trusted it is the first of them; without a header it is the proxy', () => {
  assert.is(findAddress('10.1.2.3', '10.0.0.1, 10.0.0.2', PROXIES), '10.0.0.1')
  assert.is(findAddress('10.1.2.3', undefined, PROXIES), '10.1.2.3')
  assert.is(findAddress('10.1.2.3', '', PROXIES), '10.1.2.3')
})

test('an entry that is no address ends the search: the proxy before it is the source', () => {
  for (const strange of ['unknown', '1.2.3.4:99', '<script>', '_hidden', '1.2.3'])
    assert.is(findAddress('10.1.2.3', `1.1.1.1, ${strange}, 10.0.0.2`, PROXIES), '10.0.0.2')
  assert.is(findAddress('10.1.2.3', `${'1.1.1.1,'.repeat(100_000)}198.51.100.1`, PROXIES), '198.51.100.1')
})

test('networks are checked', () => {
  for (const text of ['10.0.0.0/33', '10.0.0.0/', '10.0.0/8', '::/129', 'host', '1.1.1.1/8/8', 'fe80::1%eth0', ''])
    assert.throws(() => trustedNetworks([text]), /neither an address nor a network/)
})

test.run()
