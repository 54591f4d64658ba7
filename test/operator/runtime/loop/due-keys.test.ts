import { ResourceEventType } from '@dot-i/k8s-operator'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createWorld, type KubernetesObject } from '../../../../operator/model/index.ts'
import { DueKeys } from '../../../../operator/runtime/loop/due-keys.ts'
import { DependencyGraph } from '../../../../operator/runtime/watch/dependencies.ts'
import { recordLog } from '../../../support/kept-log.ts'

const { Added, Modified } = ResourceEventType
const object = (kind: string, more: object = {}, metadata: object = {}): KubernetesObject => ({
  apiVersion: 'portico.dev/v1beta1',
  kind,
  metadata: { name: 'a', namespace: 'team', ...metadata },
  ...more,
})

function createDueKeys() {
  const did: string[] = []
  const world = createWorld()
  const due = new DueKeys({
    queue: { add: (key: string) => did.push(`add ${key}`) } as never,
    debounce: { arrived: () => did.push('arrived'), hold: (key: string) => did.push(`hold ${key}`) } as never,
    world,
    graph: new DependencyGraph(),
    observers: { delivery: { check: (key: string) => did.push(`check ${key}`) } } as never,
    isOurs: () => true,
    log: recordLog().log,
  })
  return { due, did, world }
}

test('a new object that depends on others waits for them; all else is due at once', () => {
  const { due, did } = createDueKeys()
  for (const kind of ['MCPGroup', 'MCPTelemetryConfig', 'MCPServerEntry', 'VirtualMCPServer', 'MCPServer'])
    due.objectChanged(Added, object(kind))
  assert.equal(did.splice(0), [
    ...['arrived', 'hold MCPGroup/team/a'],
    ...['arrived', 'hold MCPTelemetryConfig/team/a'],
    ...['arrived', 'hold MCPServerEntry/team/a'],
    ...['arrived', 'hold VirtualMCPServer/team/a'],
    ...['arrived', 'add MCPServer/team/a'],
  ])
  due.objectChanged(Modified, object('MCPGroup', { status: { observedGeneration: 0 } }))
  due.objectChanged(Modified, object('MCPGroup', { status: { phase: 'Ready' } }))
  due.objectChanged(Modified, object('MCPGroup', {}, { deletionTimestamp: '2026-11-20T12:00:00Z' }))
  assert.equal(did, ['hold MCPGroup/team/a', 'add MCPGroup/team/a', 'add MCPGroup/team/a'])
})

test('the same holds if all are due, as after a start', () => {
  const { due, did, world } = createDueKeys()
  world.objects.put(object('MCPGroup', { spec: {} }))
  world.objects.put(object('MCPOIDCConfig', { spec: {}, status: { conditions: [] } }))
  world.objects.put(object('MCPServer', { spec: {} }))
  due.all()
  assert.equal(did, [
    'hold MCPGroup/team/a',
    'add MCPOIDCConfig/team/a',
    'add MCPServer/team/a',
    'check MCPServer/team/a',
  ])
})

test.run()
