import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { checkVersions, PATCHED } from '../../build/patches/index.ts'
import { temporaryFolder } from '../support/folder.ts'

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

test('bundling fails for other versions than the patches were written for', () => {
  checkVersions()
  const installed = { ...PATCHED, undici: '99.0.0' }
  using modules = temporaryFolder(
    Object.fromEntries(
      Object.entries(installed).map(([name, version]) => [`${name}/package.json`, JSON.stringify({ version })]),
    ),
  )
  assert.throws(() => checkVersions(modules.path), /^undici 99\.0\.0 is installed, and the bundle patches 8\./)
})

test.run()
