/** Checks that a cluster accepts the manifests of docs/authentication.md. */
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseAllDocuments } from 'yaml'
import { condition, plansOfText } from '../support/operator/plans.ts'

const text = readFileSync(new URL('../../docs/authentication.md', import.meta.url), 'utf8')
const blocks = [...text.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)
const GROUP = 'kind: MCPGroup\nmetadata: {name: tools}\n---\n'

for (const [at, block] of blocks.entries())
  test(`example ${at + 1} is valid in all its parts`, () => {
    const plans = plansOfText(GROUP + block)
    for (const document of parseAllDocuments(block)) {
      const { kind, metadata } = document.toJS() as { kind: string; metadata: { name: string } }
      const plan = plans.get(`${kind}/${metadata.name}`)
      if (kind !== 'Secret' && kind !== 'ConfigMap')
        assert.is(condition(plan, 'Valid'), 'True ConfigValid', `${kind}/${metadata.name}`)
    }
  })

test('there are examples', () => assert.ok(blocks.length >= 4))

test.run()
