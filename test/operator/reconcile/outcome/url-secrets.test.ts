/** URLs may contain keys: checks that a status shows none of them. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { plansOfText } from '../../../support/operator/plans.ts'

const KEY = 's3cr3t-in-a-query'

test('the backends of a gateway are listed without query and password', () => {
  const url = `https://mcp.example.com/mcp?key=${KEY}`
  const plan = plansOfText(
    [
      'kind: MCPGroup\nmetadata: {name: tools}\nspec: {}',
      `kind: MCPServerEntry\nmetadata: {name: e}\nspec: {groupRef: {name: tools}, transport: streamable-http, remoteUrl: "${url}"}`,
      'kind: VirtualMCPServer\nmetadata: {name: it}\nspec: {groupRef: {name: tools}, incomingAuth: {type: anonymous}}',
    ].join('\n---\n'),
  ).get('VirtualMCPServer/it')
  assert.equal(plan?.status['discoveredBackends'], [
    { name: 'e', kind: 'MCPServerEntry', url: 'https://mcp.example.com/mcp' },
  ])
  assert.not.match(JSON.stringify(plan?.status), KEY)
})

test('a condition shows no query and no password of a URL', () => {
  const plan = plansOfText(
    [
      'kind: MCPServer\nmetadata: {name: it}\nspec: {image: x, transport: streamable-http}',
      `kind: Observation\nmetadata: {name: it}\nobservation: {kind: MCPServer, replicas: 1, readyReplicas: 0, reason: Away, message: "https://u:${KEY}@h/mcp?key=${KEY} is away"}`,
    ].join('\n---\n'),
  ).get('MCPServer/it')
  const text = JSON.stringify(plan?.status)
  assert.match(text, 'https://h/mcp is away')
  assert.not.match(text, KEY)
})

test.run()
