import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { ListKind } from '../../../../../dataplane/gateway/backends/lists/list-kind.ts'
import { SharedLists } from '../../../../../dataplane/gateway/backends/lists/list-memory.ts'
import { eventually } from '../../../../support/eventually.ts'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

const buildList = (...texts: readonly string[]) => texts.map((text) => ({ text }))

const others: readonly [string, ListKind, readonly string[]][] = [
  ['another text', 'tools', ['ab', 'd']],
  ['another order', 'tools', ['c', 'ab']],
  ['fewer texts', 'tools', ['ab']],
  ['more texts', 'tools', ['ab', 'c', '']],
  ['the same characters, cut elsewhere', 'tools', ['a', 'bc']],
  ['texts that look like lengths', 'tools', ['ab1:c']],
  ['another kind', 'prompts', ['ab', 'c']],
]

test('a list with the same texts in the same order is shared', () => {
  const lists = new SharedLists()
  const first = buildList('ab', 'c')
  assert.is(lists.same('tools', first), first)
  assert.is(lists.same('tools', buildList('ab', 'c')), first)
  assert.is(lists.count, 1)
})

for (const [title, kind, texts] of others)
  test(`${title} is another list`, () => {
    const lists = new SharedLists()
    const first = lists.same('tools', buildList('ab', 'c'))
    const other = buildList(...texts)
    assert.is(lists.same(kind, other), other)
    assert.is(lists.same('tools', buildList('ab', 'c')), first)
  })

test('an unused list is forgotten, and the others are not', async () => {
  const lists = new SharedLists()
  const shared = lists.same('tools', buildList('kept'))
  for (let index = 0; index < 1_000; index++) lists.same('tools', buildList(`tool ${index}`))
  await eventually('the lists that nobody has are forgotten', () => {
    collect()
    return lists.count === 1
  })
  assert.is(lists.same('tools', buildList('kept')), shared)
})

test.run()
