/** Checks docs/security-requirements.md: each requirement names an existing test, or says why it has none. */
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'

const root = new URL('../../', import.meta.url)
const docs = readFileSync(new URL('docs/security-requirements.md', root), 'utf8')
const rows = docs
  .split('\n')
  .filter((line) => /^\| (?!requirement|---)/.test(line) && !line.startsWith('|---'))
  .map((line) => line.split('|').map((cell) => cell.trim()))

test('each row names existing tests, or says why there is none', () => {
  assert.ok(rows.length > 40, String(rows.length))
  for (const [, requirement = '', evidence = ''] of rows) {
    const files = [...evidence.matchAll(/`(test\/[^`]+)`/g)].map((match) => match[1] as string)
    if (files.length === 0) assert.match(evidence, /^(n\/a|put off): .{20}/, requirement)
    for (const file of files) {
      assert.match(file, /\.test\.ts$/, requirement)
      assert.ok(existsSync(new URL(file, root)), `${requirement}: ${file} is gone`)
    }
  }
})

test.run()
