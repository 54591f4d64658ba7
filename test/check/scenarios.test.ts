import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { readScenarios, wrongScenarios } from '../../check/scenarios.ts'

const tests = new URL('../', import.meta.url)
const tables = new URL('scenarios/', tests)

function read(file: string): string | undefined {
  const url = new URL(file, tests)
  return existsSync(url) ? readFileSync(url, 'utf8') : undefined
}

for (const name of readdirSync(tables).filter((one) => one.endsWith('.md')))
  test(`each test that test/scenarios/${name} names is there`, () => {
    const scenarios = readScenarios(readFileSync(new URL(name, tables), 'utf8'))
    assert.ok(scenarios.length > 0)
    assert.equal(wrongScenarios(scenarios, read), [])
  })

const HEAD = '| Scenario | Test | Title | Counterpart |\n| :-- | --- | --- | --- |\n'
const TWO = `\`two of \${era}: a|b\``
const FILES: Readonly<Record<string, string>> = {
  'a.test.ts': `test('one', () => {})\n  test(\n  ${TWO}, async () => {})\neventually('three', () => true)\n// four`,
  'table.test.ts': "for (const [title] of [['row', 1], [\n 'other']]) test(title, () => {})\nf('no row')",
}
const findWrong = (...lines: readonly string[]) =>
  wrongScenarios(readScenarios(`# T\n\n${HEAD}${lines.join('\n')}\n\ntext`), (file) => FILES[file])

test('tables with other columns are passed over', () => {
  assert.equal(readScenarios('| A | B |\n| --- | --- |\n| c | d |\n'), [])
  assert.equal(readScenarios(`${HEAD}| s | a.test.ts | one | c |\n\n| x | y | z | w |\n`), [
    { scenario: 's', file: 'a.test.ts', title: 'one', counterpart: 'c' },
  ])
})

test('a title is found in its file, with any kind of quotes', () => {
  assert.equal(
    findWrong('| s | a.test.ts | one | c |', `| | a.test.ts | two of \${era}: a\\|b | c |`, '| n | none | why | |'),
    [],
  )
})

test('a title may be that of a line of a table', () => {
  for (const title of ['row', 'other']) assert.equal(findWrong(`| s | table.test.ts | ${title} | c |`), [])
  assert.is(findWrong('| s | table.test.ts | no row | c |').length, 1)
})

test('missing files and titles, other texts than titles, and incomplete lines are reported', () => {
  assert.equal(findWrong('| s | b.test.ts | one | c |'), ['line 1 (s): there is no test/b.test.ts'])
  for (const title of ['on', 'three', 'four', 'one more'])
    assert.equal(findWrong(`| s | a.test.ts | ${title} | c |`), [
      `line 1 (s): test/a.test.ts has no test of the title "${title}"`,
    ])
  assert.equal(findWrong('| s | a.test.ts | one | |'), ['line 1 (s): no counterpart'])
  assert.equal(findWrong('| s | none | | |'), ['line 1 (s): no title'])
  assert.equal(findWrong('| | a.test.ts | one | c |'), ['line 1 (one): the first line has no scenario'])
})

test.run()
