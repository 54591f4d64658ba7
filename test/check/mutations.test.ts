import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { readJudges } from '../../check/mutations/checkout.ts'
import { applyMutant, makeMutants, mutantIn, parses } from '../../check/mutations/mutants.ts'

const root = join(import.meta.dirname, '../..')
const SOURCE = `// if (a < b) return
const LIMIT_MS = 30_000
type Of<T> = T extends string ? 1 : 2
export async function call(list: Map<string, number>, text = 'if (a === b) return') {
  if (list.size > LIMIT_MS || /await (x)/.test(text)) return
  await wait({ maxItems: 4, name: 7 })
}
`
const readLines = (source: string) =>
  makeMutants('a.ts', source).map(
    (mutant) => `${mutant.line}: ${applyMutant(source, mutant).split('\n')[mutant.line - 1]?.trim()}`,
  )

test('mutations change code, and neither comments, texts, patterns nor types', () => {
  assert.equal(readLines(SOURCE), [
    '5: if (list.size <= LIMIT_MS || /await (x)/.test(text)) return',
    '5: if (false) return',
    '6: wait({ maxItems: 4, name: 7 })',
    '2: const LIMIT_MS = 60000',
    '6: await wait({ maxItems: 8, name: 7 })',
  ])
  for (const mutant of makeMutants('a.ts', SOURCE)) assert.ok(parses(applyMutant(SOURCE, mutant)))
  assert.not(parses('const a = = 1'))
})

test('a mutant is found again if its line has moved, and not if the line is gone or ambiguous', () => {
  const [mutant] = makeMutants('a.ts', SOURCE)
  assert.ok(mutant)
  const moved = `// One line more.\n${SOURCE}`
  const found = mutantIn(moved, SOURCE, mutant)
  assert.is(found?.line, 6)
  assert.is(found && applyMutant(moved, found), `// One line more.\n${applyMutant(SOURCE, mutant)}`)
  assert.is(mutantIn(SOURCE.replace('list.size', 'size'), SOURCE, mutant), undefined)
  assert.is(mutantIn(SOURCE + SOURCE, SOURCE, mutant), undefined)
})

test('the test of the same name judges a mutant first, and tests that start the command judge it too', () => {
  const judges = readJudges(root)('operator/render/object/canonical.ts')
  assert.is(judges[0], 'test/operator/render/object/canonical.test.ts')
  assert.ok(judges.includes('test/docs/registry.test.ts'))
  assert.not(judges.includes('test/crds/duration.test.ts'))
})

test.run()
