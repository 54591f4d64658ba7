/** Children with finalizers or owners of others, and fields that others take by force. */
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { manifest } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'
import { newStage } from '../support/stage.ts'

const stage = newStage()
const server = (name: string, image = 'server:1') =>
  manifest('MCPServer', name, { image, transport: 'streamable-http' })

test.before(() => stage.start())
test.after(() => stage.stop())

test('a terminating child with a finalizer of others is reported and waited for without a write', async () => {
  stage.apply(server('held'))
  const { metadata } = await stage.until('Deployment', 'held-mcp')
  stage.plane.mergePatch('deployment', 'held-mcp', { metadata: { finalizers: ['example.com/hold'] } })
  stage.remove('MCPServer/held')
  await stage.until('Deployment', 'held-mcp', (one) => one.metadata.deletionTimestamp)
  stage.apply(server('held', 'server:2'))
  await stage.waitForCondition(
    'MCPServer',
    'held',
    'Ready',
    /^False ChildTerminating: .*Deployment "held-mcp" is still being deleted/,
  )
  await stage.waitForCondition('MCPServer', 'held', 'Reconciling', /^True ChildTerminating/)
  const written = stage.recordWrites('held-mcp')
  await delay(3_000)
  assert.equal(written(), [])
  assert.is((await stage.get('Deployment', 'held-mcp')).metadata.uid, metadata.uid)
  stage.plane.mergePatch('deployment', 'held-mcp', { metadata: { finalizers: null } })
  const { spec } = await stage.until('Deployment', 'held-mcp', (one) => one.metadata.uid !== metadata.uid)
  assert.is(spec.template.spec.containers[0].image, 'server:2')
})

test('an owner reference that others add to a child is kept, and deleting that owner does not delete the child', async () => {
  stage.apply(server('owned'))
  const { metadata } = await stage.until('Deployment', 'owned-mcp')
  stage.put('ConfigMap', { owner: { a: 'b' } })
  const { uid } = stage.plane.read('configmap', 'owner').metadata
  const ownerReferences = [...metadata.ownerReferences, { apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid }]
  stage.plane.mergePatch('deployment', 'owned-mcp', { metadata: { ownerReferences } })
  const written = stage.recordWrites('owned-mcp')
  // A change that makes the operator write, which shows that it has seen the other manager's change.
  stage.apply(server('owned', 'server:2'))
  const { metadata: now } = await stage.until('Deployment', 'owned-mcp', ({ spec }) =>
    JSON.stringify(spec.template).includes('"server:2"'),
  )
  assert.equal(
    now.ownerReferences.map(({ kind }) => kind),
    ['MCPServer', 'ConfigMap'],
  )
  await eventually(() => written().length > 0, 'the audit log has the write')
  // The operator writes more than once if it had not yet seen the other manager's change.
  assert.equal([...new Set(written())], ['patch deployments owned-mcp'])
  stage.remove('ConfigMap/owner')
  // The garbage collector removes only the reference.
  await stage.until('Deployment', 'owned-mcp', (one) => one.metadata.ownerReferences.length === 1)
})

test('fields that another manager takes by force are restored each time', async () => {
  const isOurs = () =>
    eventually(async () => {
      const { spec } = await stage.get('Deployment', 'owned-mcp')
      return !spec['paused'] && !spec['minReadySeconds'] && spec.template.spec.containers[0].image === 'server:2'
    }, 'the Deployment is as the operator writes it')
  const containers = [{ name: 'mcp', image: 'theirs:1' }]
  const spec = { paused: true, minReadySeconds: 7, template: { spec: { containers } } }
  const theirs = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'owned-mcp' }, spec }
  for (let round = 0; round < 4; round += 1) {
    stage.plane.applyOnServer([theirs], { manager: 'other', force: true })
    await isOurs()
  }
  await stage.waitForCondition('MCPServer', 'owned', 'Ready', 'False Progressing')
})

test.run()
