import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { debianPackages } from '../../build/image/debian-packages.ts'
import { nodeLayer } from '../../build/image/portico.ts'
import { buildBom, withFiles, withPrograms } from '../../build/sbom.ts'

const own = { name: 'portico', version: '1.0.0', license: 'Apache-2.0' }
const lock = {
  'node_modules/a': { version: '1.2.3', license: 'MIT', integrity: 'sha512-AAEC' },
  'node_modules/@scope/b': { version: '2.0.0', license: '(MIT OR Apache-2.0)' },
  'node_modules/a/node_modules/c': { version: '0.1.0' },
  'node_modules/unused': { version: '9.9.9', license: 'MIT' },
}

test('each package of which a file is bundled is listed once, by name, version, licence and digest', () => {
  const { components, metadata } = buildBom(own, lock, [
    'cli/main.ts',
    'node_modules/a/index.js',
    'node_modules/a/lib/more.js',
    'node_modules/@scope/b/b.js',
    'node_modules/a/node_modules/c/c.js',
  ])
  assert.is(metadata.component.purl, 'pkg:npm/portico@1.0.0')
  assert.equal(components, [
    {
      type: 'library',
      'bom-ref': 'pkg:npm/%40scope/b@2.0.0',
      name: '@scope/b',
      version: '2.0.0',
      purl: 'pkg:npm/%40scope/b@2.0.0',
      licenses: [{ expression: '(MIT OR Apache-2.0)' }],
    },
    {
      type: 'library',
      'bom-ref': 'pkg:npm/a@1.2.3',
      name: 'a',
      version: '1.2.3',
      purl: 'pkg:npm/a@1.2.3',
      licenses: [{ license: { id: 'MIT' } }],
      hashes: [{ alg: 'SHA-512', content: '000102' }],
    },
    { type: 'library', 'bom-ref': 'pkg:npm/c@0.1.0', name: 'c', version: '0.1.0', purl: 'pkg:npm/c@0.1.0' },
  ])
})

test('programs beside the bundle are listed too', () => {
  const { components } = withPrograms(buildBom(own, lock, []), { git: '2.39.5' })
  assert.equal(
    components.map(({ purl }) => purl),
    ['pkg:generic/git@2.39.5'],
  )
})

test('each file of the system is listed once, with its digest and origin', () => {
  const of = { name: 'zlib1g', version: '1:1.2.13.dfsg-1', architecture: 'amd64', distribution: 'debian' }
  const file = { type: 'library', content: Buffer.from('z') } as const
  const { components } = withFiles(buildBom(own, lock, []), [
    { ...file, path: 'usr/lib/libz.so.1', package: of },
    { ...file, path: 'lib64/ld-linux-x86-64.so.2', package: undefined },
    { ...file, path: 'usr/lib/libz.so.1', package: of },
  ])
  const content = createHash('sha512').update('z').digest('hex')
  assert.equal(components, [
    {
      type: 'library',
      'bom-ref': 'file:/lib64/ld-linux-x86-64.so.2',
      name: 'ld-linux-x86-64.so.2',
      hashes: [{ alg: 'SHA-512', content }],
    },
    {
      type: 'library',
      'bom-ref': 'file:/usr/lib/libz.so.1',
      name: 'libz.so.1',
      version: '1:1.2.13.dfsg-1',
      purl: 'pkg:deb/debian/zlib1g@1%3A1.2.13.dfsg-1?arch=amd64',
      hashes: [{ alg: 'SHA-512', content }],
    },
  ])
})

test('libraries of this machine are found in its packages, if it has a package manager', () => {
  const libraries = nodeLayer().flatMap(({ path }) => (/\.so(\.\d+)*$/.test(path) ? [`/${path}`] : []))
  assert.ok(libraries.length > 0)
  const found = debianPackages(libraries)
  if (existsSync('/usr/bin/dpkg-query')) assert.ok(found.size > 0, libraries.join())
  for (const { name, version } of found.values()) assert.ok(name !== '' && /^\d/.test(version))
})

test('a package that the lock file does not know is an error', () => {
  assert.throws(() => buildBom(own, lock, ['node_modules/d/d.js']), /node_modules\/d is bundled and not in/)
})

test.run()
