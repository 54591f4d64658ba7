/** Checks that the manifests of docs/workflows.md are valid and that their templates can be parsed. */
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse, parseAllDocuments } from 'yaml'
import { DEFAULT_GROUP, validateObject } from '../../crds/index.ts'
import type { GatewayConfig } from '../../dataplane/config/gateway.ts'
import { templateFunctions } from '../../dataplane/config/workflow/parse-template.ts'
import { eventually } from '../support/eventually.ts'
import { startGateway } from '../support/gateway/gateway.ts'
import { postModern } from '../support/gateway/post.ts'
import { condition, configText, plansOfText } from '../support/operator/plans.ts'
import { type RawServer, startRawServer, tool } from '../support/servers/raw-server.ts'

const text = readFileSync(new URL('../../docs/workflows.md', import.meta.url), 'utf8')
const [manifests = ''] = [...text.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)

test('the example is valid, and both workflows are in the gateway’s configuration', () => {
  for (const document of parseAllDocuments(manifests))
    assert.equal(validateObject(document.toJS() as never, DEFAULT_GROUP), [])
  const plans = plansOfText(manifests)
  assert.is(condition(plans.get('VirtualMCPCompositeToolDefinition/release'), 'Ready'), 'True Ready')
  const gateway = plans.get('VirtualMCPServer/releases')
  assert.is(condition(gateway, 'CompositeToolsReady'), 'True AllServed')
  assert.is(condition(gateway, 'CompositeToolWarning'), undefined)
})

test('the example is served', async () => {
  const servers: RawServer[] = []
  const startTools = async (...names: string[]) => {
    const server = await startRawServer({ era: 'both', tools: names.map((name) => tool(name)), call: () => undefined })
    servers.push(server)
    return server.url
  }
  const planned = parse(configText(plansOfText(manifests).get('VirtualMCPServer/releases'))) as GatewayConfig
  const { name, namespace, role, incomingAuth, compositeTools } = planned
  const backends = [
    { name: 'git', url: await startTools('build', 'changelog', 'publish') },
    { name: 'chat', url: await startTools('send') },
  ]
  const config = JSON.stringify({ name, namespace, role, incomingAuth, compositeTools, backends })
  const gateway = await startGateway({ backends: [] })
  try {
    await gateway.configure(config)
    await eventually('its tools', async () => {
      const { json } = await postModern(gateway.url, 'tools/list')
      const names = json.result?.tools.map((tool: { name: string }) => tool.name) ?? []
      return ['release', 'announce'].every((one) => names.includes(one))
    })
    assert.equal((await gateway.status()).refused, [])
    await eventually('no problems', async () => (await gateway.status()).problems.length === 0)
  } finally {
    await gateway.close()
    for (const server of servers) await server.close()
  }
})

test('every function of templates is named', () => {
  for (const name of templateFunctions.keys()) assert.match(text, `\`${name}\``)
})

test.run()
