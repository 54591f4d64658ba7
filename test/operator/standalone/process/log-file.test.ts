import { existsSync, readFileSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { LogFile } from '../../../../operator/standalone/ports/state.ts'
import { temporaryFolder } from '../../../support/folder.ts'

test('each line has its time; the log of the run before is kept, and no one else may read it', () => {
  using folder = temporaryFolder()
  const path = join(folder.path, 'run.log')
  for (const line of ['first', 'second']) {
    const log = new LogFile(path)
    log.write(line)
    log.close()
  }
  assert.match(readFileSync(path, 'utf8'), /^\d{4}-\d\d-\d\dT[\d:.]+Z second\n$/)
  assert.match(readFileSync(`${path}.1`, 'utf8'), / first\n$/)
  assert.is(statSync(path).mode & 0o777, 0o600)
})

test('whatever a server writes, the log takes 16 MiB and a little at most', () => {
  using folder = temporaryFolder()
  const path = join(folder.path, 'run.log')
  const log = new LogFile(path)
  const line = 'x'.repeat(8000)
  for (let count = 0; count < 5000; count++) log.write(line)
  log.write('the last')
  log.close()
  assert.match(readFileSync(path, 'utf8').slice(-20), 'the last\n')
  assert.ok(statSync(path).size + statSync(`${path}.1`).size < 17 * 2 ** 20)
})

test('a file in its place is moved, not overwritten', () => {
  using folder = temporaryFolder({ precious: 'kept' })
  const path = join(folder.path, 'run.log')
  symlinkSync(join(folder.path, 'precious'), path)
  const log = new LogFile(path)
  log.write('line')
  log.close()
  assert.is(readFileSync(join(folder.path, 'precious'), 'utf8'), 'kept')
  assert.ok(existsSync(`${path}.1`))
})

test.run()
