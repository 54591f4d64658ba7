import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createFilter } from '../../../dataplane/registry/sources/filter.ts'
import { parseCatalog } from '../../support/parse-catalog.ts'
import { registryFile, server } from '../../support/registry.ts'

const tagged = (name: string, ...tags: unknown[]) =>
  server(name, '1.0.0', {
    _meta: { 'io.modelcontextprotocol.registry/publisher-provided': { 'com.example': { [name]: { tags } } } },
  })
const { versions } = await parseCatalog(
  Buffer.from(
    registryFile([
      tagged('com.example/files', 'storage', 'local'),
      tagged('com.example/mail', 'chat', 7),
      tagged('io.other/mail.v2'),
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
for (const [what, filter, kept] of cases)
  test(what, () => {
    assert.equal(
      versions.filter(createFilter(filter)).map(({ name }) => name),
      kept,
    )
  })

test('many stars cost no more than one', () => {
  const passes = createFilter({ names: { include: [`${'*'.repeat(500)}x`] } })
  assert.is(versions.some(passes), false)
})

test.run()
