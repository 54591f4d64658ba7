import semver from 'semver'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { precedence } from '../../../../dataplane/registry/catalog/precedence.ts'

/** Oldest first. */
const ORDERED = [
  // Versions that are not semantic come first, in natural order.
  '',
  '1',
  '2',
  '9.1',
  '10',
  '10.0.0.1',
  'build-2',
  'build-10',
  'x',
  // The examples of semver.org section 11, and similar ones.
  '0.0.0-0',
  '0.0.0',
  '0.9.0',
  '0.10.0',
  '1.0.0-1',
  '1.0.0-2',
  '1.0.0-10',
  '1.0.0-alpha',
  '1.0.0-alpha.1',
  '1.0.0-alpha.beta',
  '1.0.0-alpha-1',
  '1.0.0-beta',
  '1.0.0-beta.2',
  '1.0.0-beta.11',
  '1.0.0-rc.1',
  '1.0.0',
  '1.0.1-0',
  '1.0.1',
  '1.2.0',
  '1.10.0',
  '2.0.0-beta',
  '2.0.0',
  '10.0.0',
  '2025.06.18',
  '2025.11.25',
  '9007199254740991.0.0',
]

const sortVersions = (versions: readonly string[]) =>
  versions
    .map((version) => [version, Buffer.from(precedence(version))] as const)
    .sort(([, one], [, other]) => Buffer.compare(one, other))
    .map(([version]) => version)

test('versions sort by precedence, byte by byte', () => {
  assert.equal(sortVersions(ORDERED.toReversed()), ORDERED)
})

test('every pair of semantic versions sorts as the semver package compares it', () => {
  const parts = ['0', '1', '2', '10', '99', '100']
  const tails = [
    '',
    '-0',
    '-1',
    '-9',
    '-10',
    '-a',
    '-a.1',
    '-a.b',
    '-a-b',
    '-A',
    '-Z.9',
    '-z',
    '-rc.1',
    '-rc.10',
    '-1a',
  ]
  const versions = parts.flatMap((major) => parts.flatMap((patch) => tails.map((tail) => `${major}.1.${patch}${tail}`)))
  for (const one of versions.slice(0, 200))
    for (const other of versions) {
      const wanted = Math.sign(semver.compare(one, other))
      const found = Math.sign(Buffer.compare(Buffer.from(precedence(one)), Buffer.from(precedence(other))))
      if (wanted !== found) assert.unreachable(`${one} and ${other}: ${found} instead of ${wanted}`)
    }
})

test('versions of equal precedence have keys of their own', () => {
  const same = ['1.0.0', 'v1.0.0', '1.0.0+build.1', '1.0.0+build.2', '01.0.0']
  assert.is(new Set(same.map(precedence)).size, same.length)
  for (const version of same) assert.is(precedence(version) < precedence('1.0.1-0'), true, version)
})

test.run()
