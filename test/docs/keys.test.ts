/** Checks that the manifests in docs/keys.md are served unchanged. */
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { condition, configText, plansOfText } from '../support/operator/plans.ts'

const text = readFileSync(new URL('../../docs/keys.md', import.meta.url), 'utf8')
const [manifests = ''] = [...text.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)

test('one manifest asks each user for a key of their own', () => {
  const group = 'kind: MCPGroup\nmetadata: {name: tools}\nspec: {}\n'
  const plan = plansOfText(`${group}---\n${manifests}`).get('VirtualMCPServer/tools')
  assert.is(condition(plan, 'Valid'), 'True ConfigValid')
  assert.is(condition(plan, 'BackendsReady'), 'True AllServed')
  assert.match(configText(plan), 'keyConfig:')
  assert.match(configText(plan), 'type: key')
  assert.match(configText(plan), /upstreamInject:\s+providerName: jira/)
})

test.run()
