import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { dispatch } from '../../cli/dispatch.ts'
import { temporaryFolder } from '../support/folder.ts'

async function migrate(...argv: string[]) {
  const outcome = { code: 0, out: '', err: '' }
  outcome.code = await dispatch(['migrate', ...argv], {
    out: (text) => {
      outcome.out += text
    },
    err: (line) => {
      outcome.err += `${line}\n`
    },
    env: {},
    stop: AbortSignal.abort(),
  })
  return outcome
}

const group = (name: string) =>
  `# ${name}\napiVersion: mcp.example.org/v1beta1\nkind: MCPGroup\nmetadata: {name: ${name}}\nspec: {}\n`
const FROM = ['--from', 'mcp.example.org']

test('a folder goes to standard output as one stream, or into another folder under the same names', async () => {
  using folder = temporaryFolder({ 'in/a.yaml': group('a'), 'in/team/b.yaml': group('b') })
  const renameGroup = (name: string) => group(name).replace('mcp.example.org', 'portico.dev')
  const input = join(folder.path, 'in')
  const result = await migrate(input, ...FROM)
  assert.is(result.code, 0)
  assert.is(result.out, `${renameGroup('a')}---\n${renameGroup('b')}`)
  assert.is(result.err, 'portico: 2 objects from mcp.example.org to portico.dev; 0 parts have no counterpart\n')
  const output = join(folder.path, 'out')
  assert.is((await migrate(input, ...FROM, '-o', output)).code, 0)
  assert.is(readFileSync(join(output, 'team/b.yaml'), 'utf8'), renameGroup('b'))
})

test('settings without a counterpart are named with their place, and the exit code says so', async () => {
  using folder = temporaryFolder({ 'a.yaml': `${group('a')}---\n${group('b').replace('MCPGroup', 'Gadget')}` })
  const { code, out, err } = await migrate(folder.path, ...FROM)
  assert.is(code, 1)
  assert.match(err, /a\.yaml:8: error: Gadget of mcp\.example\.org\/v1beta1 has no counterpart and is left as it is/)
  assert.match(out, /apiVersion: mcp\.example\.org\/v1beta1\nkind: Gadget/)
})

test('existing files are not overwritten, not even the input', async () => {
  using folder = temporaryFolder({ 'a.yaml': group('a') })
  const { code, err } = await migrate(folder.path, ...FROM, '-o', folder.path)
  assert.is(code, 1)
  assert.match(err, /a\.yaml: exists already/)
  assert.is(readFileSync(join(folder.path, 'a.yaml'), 'utf8'), group('a'))
})

for (const [argv, message] of [
  [['.'], /--from is missing/],
  [['.', '--from', 'nodot'], /--from nodot: a group is a DNS name with a dot/],
  [['.', '--from', 'a.b', '--to', 'a.b'], /--from and --to are the same/],
  [FROM, /files or folders of manifests are missing/],
  [['.', ...FROM, '--kubeconfig', 'x'], /takes either files or --kubeconfig/],
] as const) {
  test(`wrong usage: ${argv.join(' ')}`, async () => {
    const { code, err } = await migrate(...argv)
    assert.is(code, 2)
    assert.match(err, message)
  })
}

test.run()
