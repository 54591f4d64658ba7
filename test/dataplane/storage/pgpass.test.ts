import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { buildClientConfig, findPgpassPassword } from '../../../dataplane/storage/sql-postgres.ts'

const key = { host: 'db.example.com', port: 5432, database: 'catalog', user: 'portico' }
const cases: Record<string, [string, string | undefined]> = {
  'the whole line': ['db.example.com:5432:catalog:portico:secret', 'secret'],
  wildcards: ['*:*:*:portico:secret\n', 'secret'],
  'the first that matches': ['*:5433:*:*:other\n*:*:*:*:first\n*:*:*:*:second', 'first'],
  'comments and empty lines': ['# db.example.com:5432:catalog:portico:no\n\n*:*:*:*:yes', 'yes'],
  'escapes in a field': ['db\\.example.com:5432:catalog:por\\tico:a\\:b\\\\c', 'a:b\\c'],
  'colons in the password': ['*:*:*:*:a:b:c', 'a:b:c'],
  'lines of Windows': ['*:*:*:*:secret\r\n', 'secret'],
  'another host': ['db:5432:catalog:portico:secret', undefined],
  'a line too short': ['*:*:*:*', undefined],
  'an empty file': ['', undefined],
}
for (const [what, [text, password]] of Object.entries(cases))
  test(`pgpass: ${what}`, () => {
    assert.is(findPgpassPassword(text, key), password)
  })

test('an escaped colon does not end a field', () => {
  assert.is(findPgpassPassword('a\\:b:5432:catalog:portico:secret', { ...key, host: 'a:b' }), 'secret')
})

test('the file is read for each connection; if it has no match, the error names the server and no password', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'portico-pgpass-'))
  const file = join(directory, 'pgpass')
  try {
    await writeFile(file, '*:*:catalog:*:secret')
    const { password } = buildClientConfig({ ...key, pgpassFile: file })
    assert.is((password as () => string)(), 'secret')
    const other = buildClientConfig({ ...key, database: 'other', pgpassFile: file })
    assert.throws(() => (other.password as () => string)(), /no password for portico at db\.example\.com:5432\/other$/)
  } finally {
    await rm(directory, { recursive: true })
  }
})

test.run()
