/** Tests how lines are written to a file: rotation, failures and a slow disk. */
import { once } from 'node:events'
import { chmodSync, mkdirSync, readFileSync, renameSync, rmdirSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { AuditWriter, FileTarget, type Target } from '../../../dataplane/audit/audit-writer.ts'
import { AuditFile } from '../../support/audit/audit-file.ts'
import { eventually } from '../../support/eventually.ts'
import { recordLog } from '../../support/kept-log.ts'

let file: AuditFile
let ends: (() => Promise<unknown>)[] = []
test.before.each(async () => {
  file = await AuditFile.create()
})
test.after.each(async () => {
  for (const end of ends.reverse()) await end()
  ends = []
  await file.remove()
})

function writerTo(target: Target, mostWaiting?: number) {
  const { log, lines: logged } = recordLog()
  const counts = { written: 0, lost: 0 }
  const writer = new AuditWriter({
    target,
    name: 'it',
    log,
    counts,
    lossLine: (count) => `lost ${count}\n`,
    ...(mostWaiting === undefined ? {} : { mostWaiting }),
  })
  ends.push(() => writer.close(1_000))
  return { writer, counts, logged }
}

const lines = (path = file.path) => readFileSync(path, 'utf8').split('\n').slice(0, -1)

test('lines are written in order, to a file that only its owner can read', async () => {
  const { writer, counts } = writerTo(new FileTarget(file.path))
  for (let index = 0; index < 1000; index++) writer.take(`${index}\n`)
  await eventually('all is written', () => counts.written === 1000)
  assert.equal(
    lines(),
    Array.from({ length: 1000 }, (_, index) => `${index}`),
  )
  assert.is(statSync(file.path).mode & 0o777, 0o600)
  assert.is(counts.lost, 0)
})

test('after a rotation by rename, lines go to a new file, and none is cut or lost', async () => {
  const { writer, counts } = writerTo(new FileTarget(file.path))
  writer.take('before\n')
  await eventually('it is written', () => counts.written === 1)
  renameSync(file.path, `${file.path}.1`)
  let written = 1
  await eventually('there is another file', () => {
    writer.take(`${written++}\n`)
    return file.text !== ''
  })
  await writer.close(30_000)
  const all = [...lines(`${file.path}.1`), ...lines()]
  assert.equal(all, ['before', ...Array.from({ length: written - 1 }, (_, index) => `${index + 1}`)])
})

test('if the file can’t be written, the problem is reported once, and the lines are written later', async () => {
  mkdirSync(file.path)
  const { writer, counts, logged } = writerTo(new FileTarget(file.path))
  writer.take('one\n')
  await eventually('the problem', () => writer.problem !== undefined)
  assert.match(String(writer.problem), /^it can’t be written: EISDIR$/)
  writer.take('two\n')
  assert.equal(counts, { written: 0, lost: 0 })
  rmdirSync(file.path)
  await eventually('both are written', () => counts.written === 2)
  assert.is(writer.problem, undefined)
  assert.equal(lines(), ['one', 'two'])
  const about = logged.map(({ msg }) => msg)
  assert.is(about.filter((text) => /can’t be written/.test(String(text))).length, 1)
  assert.is(about.filter((text) => /written again/.test(String(text))).length, 1)
})

test('a folder in which no file can be made is reported with the reason', async () => {
  const folder = join(file.directory, 'no', 'such', 'audit.log')
  const { writer } = writerTo(new FileTarget(folder))
  writer.take('one\n')
  await eventually('the problem', () => writer.problem === 'it can’t be written: ENOENT')
  if (process.getuid?.() === 0) return
  chmodSync(file.directory, 0o500)
  const { writer: other } = writerTo(new FileTarget(file.path))
  other.take('one\n')
  await eventually('the problem', () => other.problem === 'it can’t be written: EACCES')
  chmodSync(file.directory, 0o700)
})

test('a slow target holds a bounded number of bytes; lines beyond that are lost, counted, and reported in the audit log', async () => {
  const written: string[] = []
  const gate = Promise.withResolvers<void>()
  const slow: Target = {
    ready: () => gate.promise,
    write: async (bytes) => {
      // A nearly full disk writes only a part at a time.
      const part = bytes.subarray(0, 7)
      written.push(part.toString())
      return part.length
    },
    close: async () => undefined,
  }
  const { writer, counts } = writerTo(slow, 100)
  for (let index = 100; index < 200; index++) writer.take(`line ${index}\n`)
  assert.equal(counts, { written: 0, lost: 89 })
  gate.resolve()
  await eventually('the waiting events are written', () => counts.written === 11)
  writer.take('after\n')
  await eventually('the rest is written', () => counts.written === 13)
  const expected = [...Array.from({ length: 11 }, (_, index) => `line ${100 + index}`), 'lost 89', 'after']
  assert.equal(written.join('').split('\n').slice(0, -1), expected)
})

test('after a write that fails in the middle of a line, the rest of that line is written', async () => {
  let fails = 2
  let text = ''
  const { writer, counts } = writerTo({
    ready: async () => undefined,
    write: async (bytes) => {
      if (text.length === 4 && fails-- > 0) throw Object.assign(new Error('full'), { code: 'EAGAIN' })
      const part = bytes.subarray(0, 4)
      text += part.toString()
      return part.length
    },
    close: async () => undefined,
  })
  writer.take('0123456789\n')
  await eventually('it is written', () => counts.written === 1)
  assert.is(text, '0123456789\n')
  assert.is(writer.problem, undefined)
})

test('closing does not wait for a target that hangs', async () => {
  const { writer, counts } = writerTo({
    ready: () => new Promise(() => undefined),
    write: async () => 0,
    close: async () => undefined,
  })
  writer.take('one\n')
  await new Promise(setImmediate)
  const began = performance.now()
  await writer.close(50)
  assert.ok(performance.now() - began < 20_000)
  assert.is(counts.written, 0)
  assert.is(counts.lost, 1)
  writer.take('two\n')
  assert.is(counts.lost, 2)
})

test('a target that is not a regular file is an error, not an endless wait', async () => {
  const server = createServer().listen(file.path)
  await once(server, 'listening')
  ends.push(async () => void server.close())
  const { writer } = writerTo(new FileTarget(file.path))
  writer.take('one\n')
  await eventually('the problem', () => writer.problem === 'it can’t be written: ENXIO')
})

test.run()
