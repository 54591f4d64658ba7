import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { kubectlScalar } from '../../crds/settings/kubectl-scalar.ts'
import { parseDocuments } from '../../operator/cluster/files/document.ts'
import { canonicalYaml } from '../../operator/render/object/canonical.ts'

/** For `a: SCALAR` sigs.k8s.io/yaml 1.6.0, with which kubectl reads manifests, returns text for these. */
const texts = `
  e2 e503 E2 1e 1e+ .e5 1.2.3 _.5 .5__0 .5_ 0o8 0xg 0x 0b2 0b _1 -+ + 0x10000000000000000 1e400 -1e400 12:30
  12:30:45 1:2.5 2001-01-01 2001-1-1 2001-01-01T00:00:00Z yEs oFf tRUE nUll nil none NaN nan inf Infinity
  10.0.0.1 1.0.0 1h30m 5m 500m 1Gi 1e3m 123abc abc123 0x1Fz 1,000 1/2 <x = .
`
  .trim()
  .split(/\s+/)

/** It returns another type for these. */
const others = [
  ['1e3', 1000],
  ['1E3', 1000],
  ['1e+3', 1000],
  ['1e-3', 0.001],
  ['-1e3', -1000],
  ['+1e3', 1000],
  ['.5', 0.5],
  ['.5e3', 500],
  ['5.', 5],
  ['5.e1', 50],
  ['1.10', 1.1],
  ['0.5', 0.5],
  ['-0.5', -0.5],
  ['+.5', 0.5],
  ['-.5', -0.5],
  ['.5_0', 0.5],
  ['010', 8],
  ['08', 8],
  ['09.5', 9.5],
  ['0o14', 12],
  ['0O14', 12],
  ['-0o7', -7],
  ['+0o7', 7],
  ['0x1F', 31],
  ['0X1F', 31],
  ['-0x1f', -31],
  ['0b11', 3],
  ['0B11', 3],
  ['-0b11', -3],
  ['1_000', 1000],
  ['1__0', 10],
  ['1_', 1],
  ['+_9', 9],
  ['-_9', -9],
  ['1_0.5_0', 10.5],
  ['7e_11', 700000000000],
  ['0_x7', 7],
  ['00', 0],
  ['0', 0],
  ['-0', 0],
  ['+5', 5],
  ['-5', -5],
  ['18446744073709551615', 18446744073709552000],
  ['18446744073709551616', 18446744073709552000],
  ['-9223372036854775808', -9223372036854776000],
  ['-9223372036854775809', -9223372036854776000],
  ['0xffffffffffffffff', 18446744073709552000],
  ['20010101', 20010101],
  ['y', true],
  ['Y', true],
  ['n', false],
  ['N', false],
  ['yes', true],
  ['YES', true],
  ['no', false],
  ['No', false],
  ['on', true],
  ['ON', true],
  ['off', false],
  ['Off', false],
  ['true', true],
  ['True', true],
  ['false', false],
  ['FALSE', false],
  ['null', null],
  ['NULL', null],
  ['~', null],
] as const

const read = (text: string) => parseDocuments(text).documents[0]?.value as { a: unknown } | undefined

test('unquoted scalars have the type that kubectl gives them', () => {
  assert.ok(texts.length + others.length > 100)
  for (const [text, value] of [...texts.map((text) => [text, text] as const), ...others]) {
    assert.is(kubectlScalar(text), value, text)
    assert.equal(read(`a: ${text}\n`), { a: value }, text)
    assert.equal(read(`a: [${text.replaceAll(',', '')}]\n`)?.a, [kubectlScalar(text.replaceAll(',', ''))], text)
  }
})

test('quoted scalars are text, and a tag sets the type', () => {
  for (const [text] of others) {
    assert.equal(read(`a: "${text}"\n`), { a: text })
    assert.equal(read(`a: '${text}'\n`), { a: text })
    assert.equal(read(`a: !!str ${text}\n`), { a: text })
  }
  assert.equal(read('a: !!int "0o14"\n'), { a: 12 })
  assert.equal(read('a: !!bool "no"\n'), { a: false })
})

test('kubectl reads rendered text as text, as a value and as a key', () => {
  for (const text of [...texts, ...others.map(([text]) => text)])
    for (const more of [{}, { lines: 'a\nb\n' }]) {
      const rendered = canonicalYaml({ a: text, b: { [text]: 1 }, ...more })
      const plain = /^a: ([^"'\n]*)$/m.exec(rendered)?.[1]
      if (plain !== undefined) assert.is(kubectlScalar(plain), text, rendered)
      const key = /^ {2}\??\s*([^"'\n]*): 1$/m.exec(rendered)?.[1]
      if (key !== undefined) assert.is(kubectlScalar(key), text, rendered)
      assert.equal(read(rendered), { a: text, b: { [text]: 1 }, ...more })
    }
})

test.run()
