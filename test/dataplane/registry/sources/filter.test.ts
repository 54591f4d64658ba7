import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compileGlob } from '../../../../dataplane/config/glob.ts'
import { createFilter } from '../../../../dataplane/registry/sources/format/filter.ts'
import { parseCatalog } from '../../../support/registry/parse-catalog.ts'
import { registryFile, server } from '../../../support/registry/registry.ts'

const buildTagged = (name: string, ...tags: unknown[]) =>
  server(name, '1.0.0', {
    _meta: { 'io.modelcontextprotocol.registry/publisher-provided': { 'com.example': { [name]: { tags } } } },
  })
const { versions } = await parseCatalog(
  Buffer.from(
    registryFile([
      buildTagged('com.example/files', 'storage', 'local'),
      buildTagged('com.example/mail', 'chat', 7),
      buildTagged('io.other/mail.v2'),
      server('io.other/plain'),
    ]),
  ),
)
const ALL = ['com.example/files', 'com.example/mail', 'io.other/mail.v2', 'io.other/plain']

type Filter = Parameters<typeof createFilter>[0]
const cases: [string, Filter, string[]][] = [
  ['no filter', undefined, ALL],
  ['an empty filter', { names: {}, tags: { include: [] } }, ALL],
  ['a star crosses the slash', { names: { include: ['com*mail'] } }, ['com.example/mail']],
  ['a dot is a dot', { names: { include: ['*/mail?v2'] } }, ['io.other/mail.v2']],
  ['dots are no wildcards', { names: { include: ['com?example.mail'] } }, []],
  ['a question mark is one character', { names: { include: ['com.example/mai?'] } }, ['com.example/mail']],
  ['a class', { names: { include: ['[a-c]om.*'] } }, ['com.example/files', 'com.example/mail']],
  ['a class the other way', { names: { include: ['[!c]*'] } }, ['io.other/mail.v2', 'io.other/plain']],
  ['a whole name, not a part', { names: { include: ['mail'] } }, []],
  ['excluded wins', { names: { include: ['*'], exclude: ['*/mail*'] } }, ['com.example/files', 'io.other/plain']],
  ['tags', { tags: { include: ['chat', 'local'] } }, ['com.example/files', 'com.example/mail']],
  ['tags are no globs', { tags: { include: ['*'] } }, []],
  ['excluded tags', { tags: { exclude: ['storage'] } }, ALL.slice(1)],
  ['names and tags', { names: { include: ['*mail*'] }, tags: { include: ['chat'] } }, ['com.example/mail']],
]
for (const [what, filter, expected] of cases)
  test(what, () => {
    assert.equal(
      versions.filter(createFilter(filter)).map(({ name }) => name),
      expected,
    )
  })

const globs: [string, string, boolean][] = [
  ['a*b*c', 'a1b2b3c', true],
  ['a*b*c', 'a1b2b3', false],
  ['*', '', true],
  ['**a', 'a', true],
  ['[!a-c]x', 'dx', true],
  ['[!a-c]x', 'bx', false],
  ['[-a]', '-', true],
  ['[a-]', '-', true],
  ['[a-c-e]', '-', true],
  ['[a-c-e]', 'd', false],
  ['[.]', 'x', false],
  ['a]b', 'a]b', true],
  ['a?', 'a', false],
]
for (const [glob, name, matches] of globs)
  test(`${glob} ${matches ? 'matches' : 'does not match'} ${JSON.stringify(name)}`, () =>
    assert.is(compileGlob(glob)(name), matches))

for (const glob of ['[', 'a[b', '[z-a]']) test(`${glob} is no glob`, () => assert.throws(() => compileGlob(glob)))

test('a pattern that makes regular expressions backtrack endlessly is matched at once', () => {
  const name = `com.example/${'a'.repeat(188)}`
  for (const glob of [
    `${'*a'.repeat(20)}*b`,
    `${'*a'.repeat(126)}b`,
    `${'*?'.repeat(126)}!`,
    `${'*[a-z]'.repeat(42)}!`,
  ])
    assert.is(compileGlob(glob)(name), false)
})

test('many stars take no longer than one', () => {
  const passes = createFilter({ names: { include: [`${'*'.repeat(500)}x`] } })
  assert.is(versions.some(passes), false)
})

test.run()
