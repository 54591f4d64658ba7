/** Checks certificates with other programs, and which certificate is kept, served and trusted at each time. */
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  encodeData,
  type Kept,
  readKept,
  renewed,
  served,
  trusted,
} from '../../../../operator/runtime/admission/certificate-keeper.ts'
import { issue } from '../../../../operator/runtime/admission/issue.ts'

const HOST = 'portico-operator-admission.portico-system.svc'
const DAY = 86_400_000
const START = Date.parse('2026-11-24T12:00:00Z')
const times = { lifetime: 90 * DAY, settle: 900_000 }
const none = { token: undefined, issued: [] }
const timeAt = (days: number) => START + days * DAY

const folder = mkdtempSync(join(tmpdir(), 'portico-certificates-'))
test.after(() => rmSync(folder, { recursive: true, force: true }))

function verify(ca: string, certificate: string, host: string): string {
  const files = [join(folder, 'ca.pem'), join(folder, 'cert.pem')] as const
  writeFileSync(files[0], ca)
  writeFileSync(files[1], certificate)
  const check = ['-x509_strict', '-purpose', 'sslserver', '-verify_hostname', host, '-CAfile', ...files]
  try {
    return execFileSync('openssl', ['verify', ...check], { encoding: 'utf8', stdio: 'pipe' })
  } catch (error) {
    return String((error as { stderr: unknown }).stderr)
  }
}

for (const [what, host, until] of [
  ['the usual one', HOST, timeAt(90)],
  ['one that ends after 2050', HOST, Date.parse('2061-01-02T03:04:05Z')],
  [
    'one for a name of 250 characters',
    `${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(60)}.svc`,
    timeAt(90),
  ],
] as const) {
  test(`openssl accepts it strictly, only for its own name and authority: ${what}`, () => {
    const issued = issue(host, { from: new Date(0), until: new Date(until) })
    assert.match(verify(issued.ca, issued.certificate, host), ': OK')
    assert.match(verify(issued.ca, issued.certificate, 'elsewhere.svc'), /hostname mismatch/i)
    const other = issue(host, { from: new Date(0), until: new Date(until) })
    assert.not.match(verify(other.ca, issued.certificate, host), ': OK')
    const read = new X509Certificate(issued.certificate)
    assert.is(read.validToDate.getTime(), until)
    assert.is(read.ca, false)
    assert.not.equal(read.serialNumber, new X509Certificate(other.certificate).serialNumber)
  })
}

test('a Secret keeps them, and unusable data counts as absent', () => {
  const { kept } = renewed(none, HOST, START, times)
  assert.equal(readKept(encodeData(kept), HOST), kept)
  assert.equal(readKept(encodeData(kept), 'another.svc'), { token: kept.token, issued: [] })
  const [one] = kept.issued
  const other = issue(HOST, { from: new Date(START), until: new Date(timeAt(90)) })
  for (const broken of [
    { ...one, key: other.key },
    { ...one, ca: other.ca },
    { ...one, certificate: 'nothing' },
    { ...one, key: '' },
  ])
    assert.equal(readKept(encodeData({ ...kept, issued: [broken] }), HOST).issued, [])
  for (const data of [{}, { token: 'eA==' }, { token: 5, 'tls.crt': { a: 1 } }])
    assert.equal(readKept(data as never, HOST), none)
})

test('a certificate is kept until a third of its life is left; then the next is trusted beside it, and served later', () => {
  const first = renewed(none, HOST, START, times)
  assert.is(first.isNew, true)
  const [one] = first.kept.issued
  assert.is(served(first.kept, START, times), one, 'there is no other')
  assert.equal(renewed(first.kept as never, HOST, timeAt(59), times), { kept: first.kept, isNew: false })

  const second = renewed(readKept(encodeData(first.kept), HOST), HOST, timeAt(61), times)
  assert.is(second.isNew, true)
  const [next, previous] = second.kept.issued as [Kept['issued'][0], Kept['issued'][0]]
  assert.equal(previous, one)
  assert.is(second.kept.token, first.kept.token, 'the path stays')
  assert.is(trusted(second.kept), next.ca + one.ca)
  assert.equal(served(second.kept, timeAt(61), times), one, 'still the old one')
  assert.equal(served(second.kept, timeAt(61) + times.settle, times), next)
  assert.is(renewed(readKept(encodeData(second.kept), HOST), HOST, timeAt(62), times).isNew, false)

  const third = renewed(readKept(encodeData(second.kept), HOST), HOST, timeAt(122), times)
  assert.is(third.kept.issued.length, 2)
  assert.equal(third.kept.issued[1], next)
})

test('after a long sleep the new one is served at once, since the others have ended', () => {
  const { kept } = renewed(none, HOST, START, times)
  const later = renewed(readKept(encodeData(kept), HOST), HOST, timeAt(200), times).kept
  assert.is(served(later, timeAt(200), times), later.issued[0])
})

test('a lost path is created again, and the certificate stays', () => {
  const { kept } = renewed(none, HOST, START, times)
  const { token: _, ...data } = encodeData(kept)
  const again = renewed(readKept(data, HOST), HOST, START, times)
  assert.is(again.isNew, true)
  assert.equal(again.kept.issued, kept.issued)
  assert.match(again.kept.token, /^[0-9a-f]{64}$/)
  assert.not.equal(again.kept.token, kept.token)
})

test.run()
