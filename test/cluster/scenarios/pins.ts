/** The life of an MCPPin, and of the servers whose definitions it pins, on a real API server. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { group, type Manifest, manifest } from '../support/manifests.ts'
import { newStage } from '../support/stage.ts'

const stage = newStage()

const digest = (letter: string) => `sha256:${letter.repeat(64)}`
const server = (name: string, spec: object = {}): Manifest =>
  manifest('MCPServer', name, { image: 'a:1', transport: 'streamable-http', groupRef: { name: 'tools' }, ...spec })
const pin = (name: string, target: string, tools: readonly object[], kind = 'MCPServer'): Manifest =>
  manifest('MCPPin', name, { targetRef: { kind, name: target }, tools })
const entry = manifest('MCPServerEntry', 'far', {
  remoteUrl: 'https://mcp.example/mcp',
  transport: 'streamable-http',
  groupRef: { name: 'tools' },
})
const gateway = manifest('VirtualMCPServer', 'front', {
  groupRef: { name: 'tools' },
  incomingAuth: { type: 'anonymous' },
  config: { pinning: { mode: 'enforce' } },
})

test.before(() => stage.start())
test.after(() => stage.stop())

test('enforcing without a pin is reported once, and pins of several objects reach the pods and leave with them', async () => {
  stage.apply(group(), server('held', { pinning: { mode: 'enforce' } }))
  await stage.waitForCondition('MCPServer', 'held', 'DefinitionsApproved', 'False Unpinned')
  await stage.waitForConfig('held-mcp', 'mode: enforce')
  await stage.waitForEvents('MCPServer', 'held', 'DefinitionWithheld', 1)
  stage.apply(pin('one', 'held', [{ name: 'a', digests: [digest('a')] }]))
  await stage.waitForConfig('held-mcp', digest('a'))
  await stage.waitForCondition('MCPServer', 'held', 'DefinitionsApproved', 'Unknown NotObserved')
  stage.apply(pin('two', 'held', [{ name: 'a', digests: [digest('b')] }]))
  await stage.waitForConfig('held-mcp', digest('b'))
  assert.ok((await stage.readConfig('held-mcp')).includes(digest('a')), 'both count')
  const { status } = await stage.until(
    'MCPPin',
    'one',
    (object) => object.status?.referencingWorkloads?.length === 1 && object.status.observedGeneration === 1,
  )
  assert.equal(status.referencingWorkloads, [{ kind: 'MCPServer', name: 'held' }])
  const row = stage.plane.kubectl(['get', 'mcppin', 'one', '--no-headers'])
  assert.match(String(row), /^one +MCPServer +held +1 +True +/)
  stage.remove('MCPPin/one')
  await stage.waitUntilGone('MCPPin', 'one')
  await stage.waitForConfig('held-mcp', new RegExp(`^(?![^]*${digest('a')})[^]*${digest('b')}`))
  stage.remove('MCPPin/two')
  await stage.waitForCondition('MCPServer', 'held', 'DefinitionsApproved', 'False Unpinned')
})

test('an enforcing gateway gets the pins of an entry, and members that do not enforce are withheld', async () => {
  stage.apply(
    group(),
    entry,
    server('loose'),
    gateway,
    pin('far', 'far', [{ name: 'a', digests: [digest('c')] }], 'MCPServerEntry'),
  )
  await stage.waitForConfig('front-vmcp', digest('c'))
  const condition = await stage.waitForCondition('VirtualMCPServer', 'front', 'DefinitionsApproved', 'False Unpinned')
  assert.match(condition, /"loose"/)
  const { status } = await stage.until('MCPPin', 'far', (object) => object.status?.referencingWorkloads?.length === 2)
  assert.equal(status.referencingWorkloads, [
    { kind: 'MCPServerEntry', name: 'far' },
    { kind: 'VirtualMCPServer', name: 'front' },
  ])
})

test('a pin without a target says so, and a duplicate name or malformed digest is refused', async () => {
  stage.apply(pin('lost', 'nobody', []))
  await stage.waitForCondition('MCPPin', 'lost', 'Ready', /^False ReferenceNotFound: MCPServer "nobody" is missing/)
  const twice = [1, 2].map(() => ({ name: 'a', digests: [digest('a')] }))
  assert.throws(() => stage.apply(pin('twice', 'held', twice)), /Duplicate value/)
  assert.throws(
    () => stage.apply(pin('form', 'held', [{ name: 'a', digests: ['sha1:aa'] }])),
    /spec.tools\[0\].digests\[0\]/,
  )
})

test.run()
