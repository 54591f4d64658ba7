import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'

interface Locked {
  readonly resolved?: string
}

const lockFile = JSON.parse(readFileSync(join(import.meta.dirname, '../../package-lock.json'), 'utf8'))
const packages = Object.entries(lockFile.packages as Record<string, Locked>)
  .filter(([path]) => path !== '')
  .map(([path, locked]) => ({ ...locked, name: path.replace(/^.*node_modules\//, '') }))

test('no package names the address of a registry', () => {
  assert.equal(
    packages.filter(({ resolved }) => resolved !== undefined).map(({ name }) => name),
    [],
  )
})

test.run()
