import { chmod, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secretFile } from '../../../dataplane/config/secret-file.ts'
import { eventually } from '../../support/eventually.ts'
import { mountVolume } from '../../support/mounted-volume.ts'

test('a rotated secret is used without a restart', async () => {
  const volume = await mountVolume({ token: 'one\n' })
  const read = secretFile(join(volume.directory, 'token'))
  assert.is(read(), 'one')
  await volume.update({ token: 'two\n' })
  await eventually('the new value', () => read() === 'two')
  await volume.remove()
})

test('a removed secret is no longer used, and may come back', async () => {
  const volume = await mountVolume({ token: 'one' })
  const file = join(volume.directory, 'token')
  const read = secretFile(file)
  assert.is(read(), 'one')
  const isReadable = () => {
    try {
      read()
      return true
    } catch (error) {
      assert.is((error as Error).message, `the file ${file} can’t be read (ENOENT)`)
      return false
    }
  }
  await unlink(file)
  await eventually('an error', () => !isReadable())
  assert.not(isReadable(), 'every later read checks the file again')
  await writeFile(file, 'three')
  assert.is(read(), 'three')
  await chmod(file, 0o600)
  await volume.remove()
})

test.run()
