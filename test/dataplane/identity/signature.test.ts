/** Tests that ECDSA signatures of JWTs, two numbers of fixed length, are verified whatever the length of the numbers. */

import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { isSigned, isSignedElsewhere, keyFor, SIGNATURE_ALGORITHMS } from '../../../dataplane/identity/index.ts'
import { unwrap } from '../../support/unwrap.ts'

const CURVES = { ES256: 'P-256', ES384: 'P-384', ES512: 'P-521' }

/** Returns a text whose signature has a number of this form, with the signature. */
function signUntil(digest: string, key: KeyObject, isWanted: (number: Buffer) => boolean) {
  for (let count = 0; ; count++) {
    const text = `text ${count}`
    const bytes = sign(digest, Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' })
    const half = bytes.length / 2
    if (isWanted(bytes.subarray(0, half)) || isWanted(bytes.subarray(half))) return { text, bytes }
  }
}

for (const [alg, namedCurve] of Object.entries(CURVES))
  test(`${alg}: numbers of every form are verified, and other signatures refused`, async () => {
    const algorithm = unwrap(SIGNATURE_ALGORITHMS.get(alg))
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve })
    const key = keyFor(publicKey, algorithm)
    const digest = unwrap(algorithm.digest)
    const both = async (text: string, bytes: Buffer) => {
      const signature = bytes.toString('base64url')
      const found = isSigned(text, signature, key)
      assert.is(await isSignedElsewhere(text, signature, key), found)
      return found
    }
    for (const isWanted of [
      (number: Buffer) => number[0] === 0 && (number[1] as number) >= 0x80,
      (number: Buffer) => number[0] === 0 && (number[1] as number) < 0x80,
      (number: Buffer) => number[0] !== 0,
    ]) {
      const { text, bytes } = signUntil(digest, privateKey, isWanted)
      assert.ok(await both(text, bytes))
      assert.not.ok(await both(`${text}.`, bytes))
      assert.not.ok(await both(text, bytes.subarray(1)))
      assert.not.ok(await both(text, Buffer.concat([Buffer.alloc(1), bytes])))
      assert.not.ok(await both(text, sign(digest, Buffer.from(text), privateKey)), 'DER')
      const half = bytes.length / 2
      const swapped = Buffer.concat([bytes.subarray(half), bytes.subarray(0, half)])
      const noNumber = Buffer.concat([bytes.subarray(0, half), Buffer.alloc(half)])
      for (const other of [swapped, noNumber, Buffer.alloc(bytes.length), Buffer.alloc(bytes.length, 255)])
        assert.not.ok(await both(text, other))
    }
    assert.not.ok(await both('', Buffer.alloc(0)))
  })

test.run()
