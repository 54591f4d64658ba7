import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { unchecked } from '../../check/locked.ts'

const good = { integrity: `sha512-${'a'.repeat(86)}==` }

test('each locked package has a SHA-512; the root and links are no packages', () => {
  const packages = {
    '': {},
    'node_modules/a': good,
    'node_modules/a/node_modules/b': good,
    'node_modules/c': { link: true },
  }
  assert.equal(unchecked({ packages }), [])
})

test('a package without a digest, with a weaker one or a short one is named', () => {
  const packages = {
    '': {},
    'node_modules/a': good,
    'node_modules/none': {},
    'node_modules/sha1': { integrity: 'sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=' },
    'node_modules/cut': { integrity: 'sha512-abc==' },
  }
  assert.equal(unchecked({ packages }), ['node_modules/none', 'node_modules/sha1', 'node_modules/cut'])
})

test.run()
