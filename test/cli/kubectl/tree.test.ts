import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { columns, treeText } from '../../../cli/kubectl/tree.ts'

const leaf = (text: string) => ({ text, branches: [] })

test('a tree has a line for each branch', () => {
  const tree = { text: 'a', branches: [{ text: 'b', branches: [leaf('c')] }, leaf('d')] }
  assert.is(treeText([tree, leaf('e')]), 'a\n├─ b\n│  └─ c\n└─ d\ne\n')
})

test('texts of others neither control a terminal nor add lines', () => {
  const text = 'red \u001b[31m, back \r over, bell \u0007, \u009b2J, line\nbreak, \u2028, \u202Ereversed\u202C'
  for (const output of [treeText([leaf(text)]), columns([[text]])]) {
    assert.not.match(output.slice(0, -1), /[\p{Cc}\p{Cf}\p{Zl}]/u)
    assert.match(output, /^red +\[31m, back +over/)
  }
})

test('columns are as wide as their widest cell', () => {
  assert.is(
    columns([
      ['NAME', 'X'],
      ['longer', 'y'],
    ]),
    'NAME    X\nlonger  y\n',
  )
})

test.run()
