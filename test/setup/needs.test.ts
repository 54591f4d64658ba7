import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { listNeeds, NEEDS } from './needs.ts'

const root = join(import.meta.dirname, '../..')

/** Programs that every machine with `make` and npm has, and `dpkg-query`, which is only called if it exists. */
const EVERYWHERE = new Set([
  'chown',
  'cp',
  'dpkg-query',
  'id',
  'ldd',
  'make',
  'mkfifo',
  'npm',
  'sh',
  '/bin/sh',
  'strip',
  'tar',
  'true',
])
const files = [...globSync('{test,build}/**/*.ts', { cwd: root })].filter((file) => !file.startsWith('test/setup/'))
const names = (file: string) => listNeeds([file]).map(({ name }) => name)

test('each program that a test starts by its name is listed as a need of that file', () => {
  for (const file of files) {
    const text = readFileSync(join(root, file), 'utf8')
    const starts = text.matchAll(
      /(?<!git\.)\b(?:spawn|spawnSync|execFile|execFileSync|execFile\)|run|program)\(\s*'([\w/.-]+)'/g,
    )
    for (const [, program] of starts) {
      if (EVERYWHERE.has(program as string) || program === 'bin/portico') continue
      const listed = (NEEDS[file] ?? []).map(({ name }) => name)
      const inNode = file.startsWith('test/e2e/') ? names('test/e2e/inside.ts') : []
      assert.ok(
        [...listed, ...inNode].includes(program as string),
        `${file} starts ${program}: name it in test/setup/needs.ts`,
      )
    }
  }
})

test('each file that is listed with needs exists', () => {
  for (const file of Object.keys(NEEDS)) assert.ok(files.includes(file), file)
})

test('a test needs what the files that it imports need, and nothing else', () => {
  assert.equal(names('test/cluster/children/services.ts').length, 1)
  assert.match(names('test/cluster/children/services.ts').join(), 'Kubernetes')
  assert.equal(names('test/check/arrows.test.ts'), [])
  assert.ok(names('test/dataplane/registry/page/page.test.ts').includes('chromium'))
  assert.ok(names('test/e2e/inside.ts').includes('containerd'))
  assert.match(names('test/dataplane/registry/api/openapi.test.ts').join(), 'schemathesis')
})

test.run()
