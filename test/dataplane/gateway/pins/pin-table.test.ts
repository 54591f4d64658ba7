import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { PinTable } from '../../../../dataplane/gateway/pins/pins.ts'
import { createNumbers } from '../../../support/random.ts'

const buildDigest = (digit: string): string => `sha256:${digit.repeat(64)}`
const A = buildDigest('a')
const B = buildDigest('b')
const C = buildDigest('0')

for (const [what, odd] of [
  ['names of one byte a character', ['\u00e4\u00ff', 'toString', '__proto__', '']],
  [
    'names of any characters',
    ['\ud800', '\udead', '\ufffd', '\u00e4\u0142', 'e\u0301', '\u00e9', '\u{1f600}', '__proto__'],
  ],
] as const)
  test(`${what} have digests of their own`, () => {
    const pins = Object.fromEntries([
      ['one', [A]],
      ['two', [A, B]],
      ['none', []],
      ...odd.map((name) => [name, [C]] as const),
    ])
    const table = new PinTable(pins)
    assert.equal([...table.names()], Object.keys(pins))
    for (const name of Object.keys(pins)) {
      assert.ok(table.has(name), name)
      for (const digest of [A, B, C]) assert.is(table.isPinned(name, digest), pins[name]?.includes(digest), name)
    }
    for (const name of ['on', 'onetwo', 'ONE', 'one\0', '\u00e4', '\ud801', 'constructor', 'e', '\u0142'])
      assert.not.ok(table.has(name) || table.isPinned(name, A) || table.isPinned(name, C), name)
    for (const digest of ['', 'a'.repeat(64), A.slice(0, -1), `${A}a`, A.toUpperCase(), `sha512:${'a'.repeat(64)}`])
      assert.not.ok(table.isPinned('one', digest), digest)
  })

test('an empty table finds nothing', () => {
  const table = new PinTable({})
  assert.equal([...table.names()], [])
  assert.not.ok(table.has('') || table.isPinned('', A))
})

test('10,000 names are found and no others', () => {
  const number = createNumbers(3)
  const digest = () => `sha256:${Array.from({ length: 64 }, () => number(16).toString(16)).join('')}`
  const pins = Object.fromEntries(
    Array.from({ length: 10_000 }, (_, at) => [
      `tool-${at}${'x'.repeat(number(5))}`,
      Array.from({ length: 1 + number(3) }, digest),
    ]),
  )
  const table = new PinTable(pins)
  const all = Object.entries(pins)
  for (const [at, [name, digests]] of all.entries()) {
    const [, others = []] = all[(at + 1) % all.length] ?? []
    assert.ok(digests.every((one) => table.isPinned(name, one)))
    assert.not.ok(others.some((one) => table.isPinned(name, one)))
    assert.not.ok(table.has(`${name}y`))
  }
})

test.run()
