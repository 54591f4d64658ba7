import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseAllDocuments, stringify } from 'yaml'
import { applyDefaults, DEFAULT_GROUP, findKind, unsupportedFields, validateObject } from '../../crds/index.ts'

interface Sample {
  readonly place: string
  readonly object: { apiVersion: string; kind: string; metadata: { name: string }; spec: object }
}

const root = new URL('../..', import.meta.url).pathname

/** The objects of our kinds in all samples. */
const samples: Sample[] = globSync('samples/**/*.yaml', { cwd: root }).flatMap((file) =>
  parseAllDocuments(readFileSync(join(root, file), 'utf8'))
    .map((document) => document.toJS() as Sample['object'] | null)
    .filter((object) => object?.apiVersion?.startsWith(`${DEFAULT_GROUP}/`) ?? false)
    .map((object) => ({ place: `${file} ${object?.kind}`, object: object as Sample['object'] })),
)

test('there are samples', () => {
  assert.ok(samples.length >= 5)
})

for (const { place, object } of samples) {
  test(`${place} is valid and has no unsupported field`, () => {
    const declaration = findKind(object.kind)
    if (!declaration) throw new Error(`no kind ${object.kind}`)
    assert.equal(validateObject(object, DEFAULT_GROUP), [])
    if (declaration.role !== 'config') assert.equal(unsupportedFields(declaration, object), [])
  })

  test(`${place} survives a round trip, and with defaults is still valid`, () => {
    const declaration = findKind(object.kind)
    if (!declaration) throw new Error(`no kind ${object.kind}`)
    const defaulted = applyDefaults(declaration, object)
    const [again] = parseAllDocuments(stringify(defaulted))
    assert.equal(again?.toJS(), defaulted)
    assert.equal(validateObject(defaulted, DEFAULT_GROUP), [])
    assert.equal(applyDefaults(declaration, defaulted), defaulted)
  })
}

test.run()
