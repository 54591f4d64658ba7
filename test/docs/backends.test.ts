import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import { condition, plansOfText } from '../support/operator/plans.ts'

const text = readFileSync(new URL('../../docs/backends.md', import.meta.url), 'utf8')
const blocks = [...text.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)

for (const [at, block] of blocks.entries())
  test(`example ${at + 1} is one that a VirtualMCPServer takes`, () => {
    const { spec } = parse(block) as { spec: object }
    const object = {
      kind: 'VirtualMCPServer',
      metadata: { name: 'gateway' },
      spec: { groupRef: { name: 'tools' }, incomingAuth: { type: 'anonymous' }, ...spec },
    }
    const plan = plansOfText(`kind: MCPGroup\nmetadata: {name: tools}\n---\n${JSON.stringify(object)}`).get(
      'VirtualMCPServer/gateway',
    )
    assert.is(condition(plan, 'Valid'), 'True ConfigValid')
  })

test('there are examples', () => assert.is(blocks.length, 2))

test.run()
