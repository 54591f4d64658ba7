import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'

interface Locked {
  readonly version: string
  readonly integrity?: string
  readonly resolved?: string
  readonly optional?: boolean
}

const lockFile = JSON.parse(readFileSync(join(import.meta.dirname, '../../package-lock.json'), 'utf8'))
const packages = Object.entries(lockFile.packages as Record<string, Locked>)
  .filter(([path]) => path !== '')
  .map(([path, locked]) => ({ ...locked, name: path.replace(/^.*node_modules\//, '') }))

/**
 * The linter for other machines: the registry by which the lock file was written serves this version for Linux with
 * glibc alone, so that nobody here can know the others' digests.
 */
const NOT_SERVED = ['darwin-arm64', 'darwin-x64', 'linux-arm64-musl', 'linux-x64-musl', 'win32-arm64', 'win32-x64']
  .map((platform) => `@biomejs/cli-${platform}@2.6.8`)
  .concat('@biomejs/cli-android-arm64@2.6.8', '@biomejs/cli-android-x64@2.6.8')

test('each package of each platform has a digest, but for those that nobody could give one', () => {
  const without = packages.filter(({ integrity }) => !/^sha512-[\w+/]{86}==$/.test(integrity ?? ''))
  assert.equal(without.map(({ name, version }) => `${name}@${version}`).sort(), [...NOT_SERVED].sort())
  // Only what npm may leave out is taken without one.
  assert.ok(without.every(({ optional }) => optional))
})

test('no package names the address of a registry', () => {
  assert.equal(
    packages.filter(({ resolved }) => resolved !== undefined).map(({ name }) => name),
    [],
  )
})

test.run()
