/** Server cards of workloads of each kind. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { condition, configText, plansOfText } from '../../support/operator/plans.ts'

const group = 'kind: MCPGroup\nmetadata: {name: tools}\nspec: {}'
const kinds = {
  MCPServer: 'image: "a:1", transport: streamable-http',
  MCPRemoteProxy: 'remoteUrl: "https://mcp.example/mcp"',
  VirtualMCPServer: 'groupRef: {name: tools}, incomingAuth: {type: anonymous}',
} as const

for (const [kind, spec] of Object.entries(kinds))
  test(`${kind}: a card without a public URL is reported and changes no children; with one it is rendered`, () => {
    const buildPlan = (card: string) =>
      plansOfText(`${group}\n---\nkind: ${kind}\nmetadata: {name: it}\nspec: {${spec}${card}}`).get(`${kind}/it`)
    const card = (more = '') => `, serverCard: {name: com.example/tools, description: Tools.${more}}`
    assert.match(condition(buildPlan(''), 'Valid') ?? '', /^True /)
    for (const more of ['', ', url: "http://tools.example/mcp"']) {
      const plan = buildPlan(card(more))
      assert.match(condition(plan, 'Valid') ?? '', /^False ServerCardNeedsURL: \/spec\/serverCard needs the public URL/)
      // The existing children stay unchanged.
      assert.is(plan?.children, 'hold')
    }
    const plan = buildPlan(card(', url: "https://tools.example/mcp"'))
    assert.match(condition(plan, 'Valid') ?? '', /^True /)
    assert.match(configText(plan), 'url: https://tools.example/mcp')
  })

test.run()
