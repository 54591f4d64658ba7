import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { rootRules } from '../../crds/define.ts'
import { DEFAULT_GROUP, validateObject } from '../../crds/index.ts'
import { readCorpus } from '../support/operator/crd-corpus.ts'
import { declarations, specPlaces } from '../support/operator/crd-schemas.ts'

const corpus = readCorpus()
const broken = new Set<string>()

for (const { title, object, refused } of corpus) {
  test(title, () => {
    const findings = validateObject(object, DEFAULT_GROUP)
    for (const { message } of findings) broken.add(message)
    const expected = [...refused]
    for (const { pointer, message } of findings) {
      const index = expected.findIndex(([place, part]) => place === pointer && message.includes(part))
      assert.ok(index >= 0, `not expected: ${pointer}: ${message}`)
      expected.splice(index, 1)
    }
    assert.equal(expected, [], 'expected findings that did not come')
  })
}

test('each rule has a case that breaks it', () => {
  const messages = declarations.flatMap((declaration) => [
    ...rootRules(declaration).map(({ message }) => message),
    ...specPlaces(declaration).flatMap(({ node }) =>
      (node['x-kubernetes-validations'] ?? []).map(({ message }) => message),
    ),
  ])
  assert.equal(
    [...new Set(messages)].filter((message) => !broken.has(message)),
    [],
  )
})

test('every kind has valid and refused cases', () => {
  for (const { kind } of declarations) {
    const own = corpus.filter(({ object }) => object.kind === kind)
    assert.ok(own.some(({ refused }) => refused.length === 0) && own.some(({ refused }) => refused.length > 0), kind)
  }
})

test.run()
