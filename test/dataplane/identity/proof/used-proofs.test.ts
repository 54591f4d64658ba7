/** Tests the record of used proofs, and nonces, which need no record. */
import { randomUUID } from 'node:crypto'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ProofNonces } from '../../../../dataplane/identity/proof/proof-guard.ts'
import { ProofKeys } from '../../../../dataplane/identity/proof/proof-keys.ts'
import { UsedProofs } from '../../../../dataplane/identity/proof/used-proofs.ts'
import { PublicError } from '../../../../dataplane/server/errors.ts'
import { Prover } from '../../../support/identity/prover.ts'

const NOW = 1_800_000_000
const proof = (more: object = {}) => ({ jkt: 'k', jti: randomUUID(), iat: NOW, caller: 'a', ...more })

test('a proof is used once, and each of two keys may use the same jti', () => {
  const used = new UsedProofs()
  const one = proof()
  assert.ok(used.add(one, NOW))
  assert.not(used.add(one, NOW))
  assert.not(used.add({ ...one, caller: 'b' }, NOW))
  assert.ok(used.add({ ...one, jkt: 'other' }, NOW))
  assert.ok(used.add(proof(), NOW))
})

test('a used proof is remembered as long as it could be valid, and then forgotten', () => {
  const used = new UsedProofs()
  const ahead = proof({ iat: NOW + 300 })
  used.add(ahead, NOW)
  assert.not(used.add(ahead, NOW + 600))
  for (let index = 0; index < 1000; index++) used.add(proof(), NOW)
  const full = used.bytes
  used.add(proof({ iat: NOW + 1000 }), NOW + 1000)
  assert.ok(used.bytes < full / 100, `${used.bytes} of ${full}`)
})

test('100,000 proofs of one caller are all recognised', () => {
  const used = new UsedProofs()
  const proofs = Array.from({ length: 100_000 }, (_, index) => proof({ jti: `j${index}`, iat: NOW - (index % 300) }))
  for (const one of proofs) assert.ok(used.add(one, NOW))
  for (const one of proofs) assert.not(used.add(one, NOW))
})

test('a caller with too many proofs is refused, none is forgotten, and others have room', () => {
  const used = new UsedProofs(1024 * 1024)
  const accepted: ReturnType<typeof proof>[] = []
  let refusal: unknown
  while (refusal === undefined) {
    const one = proof()
    try {
      used.add(one, NOW)
      accepted.push(one)
    } catch (error) {
      refusal = error
    }
  }
  assert.is((refusal as PublicError).code, 'share_exceeded')
  assert.ok(used.bytes <= (1024 * 1024) / 2)
  for (const one of accepted) assert.not(used.add(one, NOW))
  assert.ok(used.add(proof({ caller: 'b' }), NOW))
  assert.ok(used.add(proof({ iat: NOW + 1000 }), NOW + 1000), 'later there is room again')
})

test('10,000 callers with a key each stay within the limit', () => {
  const used = new UsedProofs(1024 * 1024)
  let accepted = 0
  for (let index = 0; index < 10_000; index++)
    try {
      if (used.add(proof({ jkt: `k${index}`, caller: `c${index}` }), NOW)) accepted++
    } catch (error) {
      assert.instance(error, PublicError)
    }
  assert.ok(used.bytes <= 1024 * 1024)
  assert.ok(accepted > 5_000, `${accepted}`)
})

test('10,000 invalid proofs of new keys are not remembered', async () => {
  const keys = new ProofKeys(['ES256'])
  const [head = ''] = (await (await Prover.create()).prove('POST', 'https://x.example/')).split('.')
  const header = JSON.parse(Buffer.from(head, 'base64url').toString())
  const before = process.memoryUsage().heapUsed
  for (let index = 0; index < 10_000; index++) {
    const other = { ...header, jwk: { ...header.jwk, kid: `${index}`.padEnd(200) } }
    assert.ok(keys.read(Buffer.from(JSON.stringify(other)).toString('base64url')))
  }
  globalThis.gc?.()
  assert.ok(process.memoryUsage().heapUsed - before < 64 * 1024 * 1024)
})

test('remembered keys have a limit, too', async () => {
  const keys = new ProofKeys(['ES256'])
  const [head = ''] = (await (await Prover.create()).prove('POST', 'https://x.example/')).split('.')
  const header = JSON.parse(Buffer.from(head, 'base64url').toString())
  const heads = Array.from({ length: 5_000 }, (_, index) =>
    Buffer.from(JSON.stringify({ ...header, kid: `${index}` })).toString('base64url'),
  )
  for (const one of heads) {
    const key = keys.read(one)
    assert.ok(key)
    keys.keep(one, key)
  }
  const [first, last] = [heads[0] as string, heads.at(-1) as string]
  assert.is(keys.read(last), keys.read(last), 'the newest is remembered')
  assert.is.not(keys.read(first), keys.read(first), 'the oldest has left')
})

const MINUTE = 60_000
const START = NOW * 1000 - ((NOW * 1000) % MINUTE)

test('a nonce is valid for two minutes, at every replica with the same key', () => {
  const keys = () => [Buffer.from('k'.repeat(32))]
  const [one, two] = [new ProofNonces(keys), new ProofNonces(keys)]
  for (const second of [0, 30, 59]) {
    const at = START + second * 1000
    const nonce = one.current(at)
    assert.ok(two.accepts(nonce, at))
    assert.ok(two.accepts(nonce, at + 2 * MINUTE), 'after two minutes')
    assert.not(two.accepts(nonce, at + 3 * MINUTE), 'after three')
    assert.ok(two.accepts(nonce, at - 20_000), 'at a replica whose clock is slower')
  }
  assert.is.not(one.current(START), one.current(START + MINUTE))
  assert.not(new ProofNonces(() => [Buffer.from('x'.repeat(32))]).accepts(one.current(START), START))
})

test('nonces of an earlier key are accepted while it is known', () => {
  let keys = ['a'.repeat(32)]
  const nonces = new ProofNonces(() => keys)
  const before = nonces.current(START)
  keys = ['b'.repeat(32), 'a'.repeat(32)]
  assert.is.not(nonces.current(START), before)
  assert.ok(nonces.accepts(before, START))
  keys = ['b'.repeat(32)]
  assert.not(nonces.accepts(before, START))
})

test.run()
