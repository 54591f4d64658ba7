/** Checks that the manifests of docs/pinning.md are valid, and that the command prints the labels that it names. */
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseAllDocuments } from 'yaml'
import { LABELS } from '../../cli/pin/diff.ts'
import { DEFAULT_GROUP, validateObject } from '../../crds/index.ts'

const text = readFileSync(new URL('../../docs/pinning.md', import.meta.url), 'utf8')

test('the examples are valid', () => {
  const blocks = [...text.matchAll(/^ *```yaml\n(.*?)^ *```/gms)].map((match) => match[1] as string)
  const objects = blocks.flatMap((block) => parseAllDocuments(block).map((document) => document.toJS()))
  assert.ok(objects.some(({ kind }) => kind === 'MCPPin') && objects.length >= 2)
  for (const object of objects) assert.equal(validateObject(object, DEFAULT_GROUP), [], JSON.stringify(object))
})

test('every label of a change is documented', () => {
  for (const label of LABELS) assert.ok(text.includes(`\`${label}\``), label)
})

test.run()
