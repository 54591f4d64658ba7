import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { readImports } from '../../check/imports.ts'
import { waysOf, wrongSteps } from '../../check/ways.ts'

const root = new URL('../../', import.meta.url)
const imports = new Map([
  ['a.ts', ['b.ts']],
  ['b.ts', ['c.ts']],
  ['c.ts', []],
])
const way = (...files: readonly string[]) => ({ name: 'a test', files })

test('docs/architecture.md lists the ways of a call, a page and a reconcile as the imports have them', () => {
  const ways = waysOf(readFileSync(new URL('docs/architecture.md', root), 'utf8'))
  assert.equal(
    ways.map(({ name }) => name),
    ['a tools/call', 'a page of the catalog', 'a reconcile'],
  )
  const real = readImports(root.pathname)
  assert.equal(
    ways.flatMap((listed) => wrongSteps(listed, real)),
    [],
  )
})

test('a list is read from its heading to the next', () => {
  const text = '# A\n\n### The way of x\n\n1. `a.ts`: does\n2. `b.ts`: `c.ts` too\n\nText `d.ts`\n## B\n\n1. `e.ts`\n'
  assert.equal(waysOf(text), [{ name: 'x', files: ['a.ts', 'b.ts'] }])
})

test('a file that no earlier one imports is refused', () => {
  assert.equal(wrongSteps(way('a.ts', 'b.ts', 'c.ts'), imports), [])
  assert.equal(wrongSteps(way('a.ts', 'c.ts'), imports), ['the way of a test: no file before c.ts imports it'])
  assert.equal(wrongSteps(way('b.ts', 'a.ts'), imports), ['the way of a test: no file before a.ts imports it'])
})

test('a file that is gone, one listed twice, a way too long and one without files are refused', () => {
  assert.equal(wrongSteps(way('a.ts', 'x.ts'), imports), ['the way of a test: there is no x.ts'])
  assert.equal(wrongSteps(way('a.ts', 'b.ts', 'b.ts'), imports), ['the way of a test: b.ts is listed twice'])
  assert.equal(wrongSteps(way('a.ts', 'b.ts', 'c.ts'), imports, 2), ['the way of a test has 3 files; at most 2'])
  assert.equal(wrongSteps(way(), imports), ['the way of a test has no files'])
})

test.run()
