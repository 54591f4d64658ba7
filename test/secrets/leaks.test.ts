/** A test whose output contains a secret fails, however the secret got there. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { removeAbandoned, secretFinder } from './scan.ts'

const root = join(import.meta.dirname, '../..')

function runLeaking(leak: string) {
  const env = { ...process.env, TEST_FILES: 'test/secrets/leaking.ts', PORTICO_LEAK: leak }
  const { status, stdout } = spawnSync(process.execPath, ['test/run.ts'], { cwd: root, env, encoding: 'utf8' })
  return { status, stdout }
}

test('a file that leaks nothing passes', () => {
  const { status, stdout } = runLeaking('nothing')
  assert.is(status, 0, stdout)
  assert.match(stdout, '1 passed, 0 failed')
})

for (const [leak, where] of [
  ['printed', 'its own output, after it is'],
  ['encoded', 'its own output, after it is'],
  ['header', 'its own output, after it is'],
  ['form', 'its own output, after it is'],
  ['proof', 'its own output, after it is'],
  ['cookie', 'its own output, after it is'],
  ['entered', 'its own output, after it is'],
  ['waited', 'after the child says'],
  ['shell', 'after the child says'],
  ['failed', 'after the child says'],
  ['child', 'after the child says'],
  ['log', 'kept-log'],
] as const)
  test(`a secret that is ${leak} fails the run, which reports the place but not the secret`, () => {
    const { status, stdout } = runLeaking(leak)
    assert.is(status, 1, stdout)
    assert.match(stdout, where)
    assert.match(stdout, '0 passed, 1 failed')
    assert.not.match(stdout, 'by-a-helper')
    assert.not.match(stdout, /in-a-(header|form|proof|cookie|page)/)
  })

test('files of a killed runner are removed, and no others', () => {
  const { pid } = spawnSync(process.execPath, ['-e', ''])
  const folders = [pid, process.pid].map((owner) => mkdtempSync(join(tmpdir(), `portico-secrets-${owner}-`)))
  removeAbandoned()
  assert.equal(folders.map(existsSync), [false, true])
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

test('each form of a secret is found, at any place, and nothing else', () => {
  const find = secretFinder(['p%ss "w:rd+ü and more', 'p%ss another one'])
  const forms = [
    'p%ss "w:rd+ü and more',
    'p%25ss%20%22w%3Ard%2B%C3%BC%20and%20more',
    'p%25ss+%22w%3Ard%2B%C3%BC+and+more',
    'p%ss \\"w:rd+ü and more',
    Buffer.from('p%ss "w:rd+ü and more').toString('base64'),
    'p%ss another one',
  ]
  for (const form of forms)
    for (const text of [form, `x${form}`, `é\n${form}y`, `p%ss ${form}`])
      assert.is(find('it', Buffer.from(text)).length, 1, text)
  for (const text of ['', 'p%ss', 'p%ss "w:rd+ü and mor', 'p%ss anothe', 'p%ss another on'])
    assert.is(find('it', Buffer.from(text)).length, 0, text)
})

test('many secrets and much output cost little', () => {
  const find = secretFinder(Array.from({ length: 10_000 }, (_, index) => `secret-number-${index}`))
  const output = Buffer.alloc(16 * 1024 * 1024, 'nothing to be found here, and se is how one begins\n')
  const before = process.cpuUsage()
  assert.is(find('it', output).length, 0)
  const { user } = process.cpuUsage(before)
  assert.ok(user < 20_000_000, `${user / 1000} ms`)
})

test.run()
