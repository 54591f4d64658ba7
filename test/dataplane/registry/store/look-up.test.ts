import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { RecentKeys } from '../../../../dataplane/registry/api/catalog/bodies.ts'
import { batchCalls } from '../../../../dataplane/registry/store/read/one-name.ts'

/** Returns a gathering whose answers the test releases; a question's key is its first letter. */
function createLookUp() {
  const groups: { readonly questions: readonly string[]; end(error?: Error): void }[] = []
  const ask = batchCalls<string, string>({
    buildKey: (question) => question.charAt(0),
    most: 3,
    atOnce: 2,
    run(questions) {
      const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>()
      const end = (error?: Error) => (error ? reject(error) : resolve(questions.map((question) => `${question}!`)))
      groups.push({ questions, end })
      return promise
    },
  })
  return { ask, groups, requested: () => groups.map(({ questions }) => questions.join()) }
}

const nextTurn = () => new Promise(setImmediate)

test('queries of one turn run in one batch, up to a limit and by key', async () => {
  const { ask, groups, requested } = createLookUp()
  const answers = Promise.all(['a1', 'b1', 'a2', 'a3', 'a4'].map(ask))
  assert.equal(requested(), [])
  await nextTurn()
  assert.equal(requested(), ['a1,a2,a3', 'a4', 'b1'])
  for (const { end } of groups) end()
  assert.equal(await answers, ['a1!', 'b1!', 'a2!', 'a3!', 'a4!'])
})

test('at the limit of running batches queries wait, and run together when one ends', async () => {
  const { ask, groups, requested } = createLookUp()
  const answers: Promise<string>[] = []
  for (const question of ['a1', 'a2', 'a3', 'a4', 'b1']) {
    answers.push(ask(question))
    await nextTurn()
  }
  assert.equal(requested(), ['a1', 'a2', 'b1'])
  groups[1]?.end()
  await nextTurn()
  assert.equal(requested(), ['a1', 'a2', 'b1', 'a3,a4'])
  for (const { end } of groups) end()
  assert.equal(await Promise.all(answers), ['a1!', 'a2!', 'a3!', 'a4!', 'b1!'])
})

test('a failed batch fails only the queries in it', async () => {
  const { ask, groups } = createLookUp()
  const settled = Promise.allSettled(['a1', 'a2', 'b1'].map(ask))
  await nextTurn()
  groups[0]?.end(new Error('away'))
  groups[1]?.end()
  assert.equal(
    (await settled).map(({ status }) => status),
    ['rejected', 'rejected', 'fulfilled'],
  )
  const again = ask('a1')
  await nextTurn()
  groups[2]?.end()
  assert.is(await again, 'a1!')
})

test('a requested key is remembered for some thousand others', () => {
  const recent = new RecentKeys()
  assert.not.ok(recent.isRepeated('x'))
  assert.ok(recent.isRepeated('x'))
  for (let other = 0; other < 4_095; other++) recent.isRepeated(`${other}`)
  assert.ok(recent.isRepeated('x'))
  for (let other = 0; other < 10_000; other++) recent.isRepeated(`other ${other}`)
  assert.not.ok(recent.isRepeated('x'))
})

test.run()
