/** Checks that the manifest in docs/clients.md is served unchanged. */
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import type { GatewayConfig } from '../../dataplane/config/gateway.ts'
import { condition, configText, plansOfText } from '../support/operator/plans.ts'

const text = readFileSync(new URL('../../docs/clients.md', import.meta.url), 'utf8')
const blocks = [...text.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)
const others = 'kind: MCPGroup\nmetadata: {name: tools}\nspec: {}\n'

test('the gateway knows clients by document, by secret and by assertion', () => {
  assert.is(blocks.length, 1)
  const plan = plansOfText(`${others}---\n${blocks[0]}`).get('VirtualMCPServer/tools')
  assert.is(condition(plan, 'Valid'), 'True ConfigValid')
  assert.is(condition(plan, 'ReferencesResolved') ?? 'True AllFound', 'True AllFound')
  const { authServer } = parse(configText(plan)) as GatewayConfig
  assert.is(authServer?.cimd?.enabled, true)
  assert.is(authServer?.delegateClients?.[0]?.clientId, 'agent')
  assert.is(authServer?.trustedIssuers?.length, 2)
})

test('the example for companies is a gateway that only accepts assertions', () => {
  const page = readFileSync(new URL('../../docs/enterprise.md', import.meta.url), 'utf8')
  const [manifest] = [...page.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)
  const plan = plansOfText(`${others}---\n${manifest}`).get('VirtualMCPServer/tools')
  assert.is(condition(plan, 'Valid'), 'True ConfigValid')
  assert.is(condition(plan, 'ReferencesResolved') ?? 'True AllFound', 'True AllFound')
  const { authServer } = parse(configText(plan)) as GatewayConfig
  assert.equal(authServer?.upstreamProviders, [])
  assert.is(authServer?.inboundGrants?.jwtBearer?.issuerPolicies?.[0]?.subjectRules?.[0]?.name, 'engineers')
})

test.run()
