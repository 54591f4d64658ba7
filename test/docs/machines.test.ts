/** Checks that the manifest in docs/machines.md is served unchanged. */
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import { keysIn } from '../../dataplane/authserver/clients/client-keys.ts'
import type { GatewayConfig } from '../../dataplane/config/gateway.ts'
import { condition, configText, plansOfText } from '../support/operator/plans.ts'

const text = readFileSync(new URL('../../docs/machines.md', import.meta.url), 'utf8')
const [manifest = '', pod = ''] = [...text.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)
const others = 'kind: MCPGroup\nmetadata: {name: tools}\nspec: {}\n'

test('the gateway knows each kind of machine client', () => {
  const plan = plansOfText(`${others}---\n${manifest}`).get('VirtualMCPServer/tools')
  assert.is(condition(plan, 'Valid'), 'True ConfigValid')
  assert.is(condition(plan, 'ReferencesResolved') ?? 'True AllFound', 'True AllFound')
  assert.is(condition(plan, 'GrantsValid'), 'True GrantsValid')
  const { authServer } = parse(configText(plan)) as GatewayConfig
  const { clientCredentials, spiffeClientAuth, jwtBearer } = authServer?.inboundGrants ?? {}
  assert.equal(
    clientCredentials?.clients.map(({ clientId }) => clientId),
    ['nightly', 'robot'],
  )
  assert.is(spiffeClientAuth?.[0]?.clientId, 'team-a')
  assert.is(jwtBearer?.issuerPolicies?.[0]?.replay, 'reusable')
  assert.match(authServer?.cluster?.tokenFile ?? '', /token$/)
})

test('the shown keys are read', () => {
  const sets = [...manifest.matchAll(/^ {4}(\{"keys".*)$/gm)].map((match) => JSON.parse(match[1] as string))
  assert.is(sets.length, 2)
  assert.is(keysIn(sets[0])?.length, 1)
  assert.is(keysIn(sets[1], 'jwt-svid')?.length, 1)
})

test('the token of a pod has the issuer as audience', () => {
  const [{ serviceAccountToken }] = parse(pod).spec.volumes[0].projected.sources
  assert.is(serviceAccountToken.audience, parse(manifest.split('---\n').at(-1) as string).spec.authServerConfig.issuer)
})

test.run()
