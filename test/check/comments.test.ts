import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { commentStarts, isBareClause } from '../../check/comments.ts'

test('each comment is found by its first line', () => {
  const source = [
    '/** One. */',
    'const a = 1 // not by itself',
    '/**',
    ' * Two,',
    ' * with more.',
    ' */',
    '// three',
    '// goes on',
  ].join('\n')
  assert.equal(commentStarts(source), [
    { line: 1, text: 'One.' },
    { line: 3, text: 'Two,' },
    { line: 7, text: 'three' },
  ])
})

for (const [text, isBare] of [
  ['Whether the caller may use it.', true],
  ['What a backend answers.', true],
  ['How long it waits.', true],
  ['Reads the answer of a backend.', false],
  ['If a client loses its stream, the gateway keeps messages for it.', false],
  ['Without a secret, introspection is off.', false],
] as const)
  test(`${text} is ${isBare ? 'a bare clause' : 'a sentence'}`, () => {
    assert.is(isBareClause(text), isBare)
  })

test.run()
