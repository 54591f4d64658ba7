/** Checks that the manifests of docs/rate-limits.md are valid and reach the pods, and that its status has the real shape. */

import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse, parseAllDocuments } from 'yaml'
import { DEFAULT_GROUP, validateObject } from '../../crds/index.ts'
import { startGateway } from '../support/gateway/gateway.ts'
import { condition, configText, plansOfText } from '../support/operator/plans.ts'
import { unwrap } from '../support/unwrap.ts'

const text = readFileSync(new URL('../../docs/rate-limits.md', import.meta.url), 'utf8')
const blocks = (language: string) =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))].map((match) => match[1] as string)
const [proxy = '', gateway = ''] = blocks('yaml')

test('the examples are valid and reach the configurations', () => {
  for (const block of [proxy, gateway])
    for (const document of parseAllDocuments(block))
      assert.equal(validateObject(document.toJS() as never, DEFAULT_GROUP), [])
  const server = plansOfText(proxy).get('MCPServer/search')
  assert.is(condition(server, 'Valid'), 'True ConfigValid')
  assert.is(condition(server, 'RateLimitWarning'), undefined)
  assert.equal(parse(configText(server)).rateLimiting, parseAllDocuments(proxy)[0]?.toJS().spec.rateLimiting)
  const tools = plansOfText(gateway).get('VirtualMCPServer/tools')
  assert.is(condition(tools, 'Valid'), 'True ConfigValid')
  assert.match(configText(tools), 'name: search_reindex')
})

test('the shown status has the fields of a real one', async () => {
  const [example] = blocks('json').map((block) => JSON.parse(block).rateLimits)
  const rateLimiting = { shared: { maxTokens: 1, refillPeriod: '1m' } }
  const real = await startGateway({ backends: [], rateLimiting })
  try {
    const rateLimits = unwrap((await real.status()).rateLimits)
    assert.equal(Object.keys(example), Object.keys(rateLimits))
    assert.equal(Object.keys(example.limits[0]), Object.keys(unwrap(rateLimits.limits[0])))
  } finally {
    await real.close()
  }
})

test.run()
