import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { canonicalQuantity } from '../../../../operator/render/object/canonical.ts'

/** Left: as people write it; right: as a Kubernetes API server returns it. */
const canonical: readonly (readonly [string, string])[] = [
  ['1', '1'],
  ['1000m', '1'],
  ['1500m', '1500m'],
  ['0.5', '500m'],
  ['.5', '500m'],
  ['2.', '2'],
  ['100m', '100m'],
  ['2000', '2k'],
  ['1024', '1024'],
  ['1024Mi', '1Gi'],
  ['1536Mi', '1536Mi'],
  ['1.5Gi', '1536Mi'],
  ['512Mi', '512Mi'],
  ['128M', '128M'],
  ['1000M', '1G'],
  ['1e3', '1e3'],
  ['1E3', '1e3'],
  ['12e2', '1200'],
  ['1E', '1E'],
  ['0', '0'],
  ['0Mi', '0'],
  ['0.0001', '100u'],
  ['0.5Ki', '512'],
  ['-1', '-1'],
  ['+1', '1'],
]

test('quantities have the form in which the API server stores them', () => {
  for (const [written, stored] of canonical) assert.is(canonicalQuantity(written), stored, written)
})

test('the canonical form is its own canonical form', () => {
  for (const [, stored] of canonical) assert.is(canonicalQuantity(stored), stored, stored)
})

test('an invalid quantity gives undefined', () => {
  for (const text of ['', '.', 'm', 'lots', '1 Gi', '1gi', '1GiB', '0x10', '1e', '1e99', '--1'])
    assert.is(canonicalQuantity(text), undefined, text)
})

test.run()
