/** Checks what is known about namespaces in deletion, and how a write that such a namespace refuses is handled. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ApiError, type ApiServer } from '../../../../operator/cluster/kubernetes/api-server.ts'
import { ChildCache } from '../../../../operator/runtime/children/child-cache.ts'
import { ChildWriter } from '../../../../operator/runtime/children/child-writer.ts'
import { work } from '../../../../operator/runtime/loop/reconciler.ts'
import { KeyedQueue } from '../../../../operator/runtime/queue/queue.ts'
import { EventRecorder } from '../../../../operator/runtime/report/event-recorder.ts'
import { NamespaceGoingError, Namespaces } from '../../../../operator/runtime/watch/namespaces.ts'
import { recordLog } from '../../../support/kept-log.ts'

const forbidden = 'unable to create new content in namespace team because it is being terminated'
const refusals = {
  'one that goes': new ApiError(403, 'Forbidden', `deployments.apps "a" is forbidden: ${forbidden}`),
  'one that is gone': new ApiError(404, 'NotFound', 'namespaces "team" not found'),
}
const failWith = (error: Error) => async () => {
  throw error
}
const namespace = (more: object = {}) => ({ kind: 'Namespace', metadata: { name: 'team', ...more } })

test('a namespace under deletion or gone is going; one that stays, or that may not be read, is not', async () => {
  const isGoing = (request: () => Promise<unknown>) => new Namespaces({ request } as never).isGoing('team')
  assert.is(await isGoing(async () => namespace({ deletionTimestamp: '2026-11-20T12:00:00Z' })), true)
  assert.is(await isGoing(failWith(refusals['one that is gone'])), true)
  assert.is(await isGoing(async () => namespace()), false)
  assert.is(await isGoing(failWith(new ApiError(403, 'Forbidden', 'namespaces "team" is forbidden'))), false)
})

test('concurrent questions cost one request', async () => {
  let requests = 0
  const request = async () => {
    requests++
    return namespace({ deletionTimestamp: '2026-11-20T12:00:00Z' })
  }
  const namespaces = new Namespaces({ request } as never)
  const answers = await Promise.all(Array.from({ length: 50 }, () => namespaces.assertStays('team').catch(String)))
  assert.is(requests, 1)
  assert.ok(answers.every((answer) => String(answer).includes('namespace team is being deleted')))
})

test('a namespace that a watch shows costs no request; any other does', async () => {
  const paths: string[] = []
  const request = async (_: string, path: string) => {
    paths.push(path)
    throw refusals['one that is gone']
  }
  const namespaces = new Namespaces({ request } as never)
  const buildNamespace = (name: string, more: object = {}) => ({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name, ...more },
  })
  const goes = { deletionTimestamp: '2026-11-20T12:00:00Z' }
  const { store } = namespaces
  const areGoing = () => Promise.all(['team', 'other'].map((name) => namespaces.isGoing(name)))
  store.replace([buildNamespace('team'), buildNamespace('other', goes)], '1')
  assert.equal(await areGoing(), [false, true])
  store.put(buildNamespace('team', goes))
  assert.equal(await areGoing(), [true, true])
  assert.equal(paths, [])

  store.remove(buildNamespace('team', goes))
  assert.equal(await areGoing(), [true, true])
  assert.equal(paths, ['/api/v1/namespaces/team'], 'one that was deleted may be there again, or gone')
  store.put(buildNamespace('team'))
  assert.is(await namespaces.isGoing('team'), false, 'a recreated namespace is another object')
  store.replace([buildNamespace('team')], '2')
  assert.equal(await areGoing(), [false, true])
  assert.equal(paths.slice(1), ['/api/v1/namespaces/other'], 'a namespace that is missing in the list is unknown')
})

for (const [what, error] of Object.entries(refusals)) {
  test(`a child in ${what} is not reported as refused`, async () => {
    // The read came first, the deletion after it.
    const api = { request: async () => namespace(), apply: failWith(error) } as unknown as ApiServer
    const writer = new ChildWriter({
      api,
      children: new ChildCache(() => undefined),
      group: 'portico.dev',
      namespaces: new Namespaces(api),
      assertLeading: () => undefined,
      onWritten: () => undefined,
    })
    const rendered = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a', namespace: 'team' } }
    const child = { rendered, live: undefined, isAdopted: false, memory: {}, changes: {} }
    const outcome = await writer.write(child).catch((thrown: unknown) => thrown)
    assert.instance(outcome, NamespaceGoingError)
  })

  test(`an event in ${what} is not logged`, async () => {
    const log = recordLog()
    const recorder = new EventRecorder({ create: failWith(error) } as never, 'portico.dev/operator', 'i', log.log)
    const object = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a', namespace: 'team' } }
    await recorder.record(object, { type: 'Normal', reason: 'Ready', message: '' })
    assert.equal(log.lines, [])
  })
}

test('errors of the API server or the network are logged without a stack, faults of ours with it', async () => {
  const readLog = async (error: Error) => {
    const log = recordLog()
    const queue = new KeyedQueue()
    queue.add('MCPGroup/team/a')
    const run = async () => {
      queue.close()
      throw error
    }
    const reconciler = { run } as never
    await work({
      queue,
      reconciler,
      leading: () => true,
      metrics: { reconciled: () => undefined } as never,
      log: log.log,
    })
    return log.text()
  }
  const refused = await readLog(new ApiError(500, 'InternalError', 'etcd is away'))
  assert.match(refused, 'etcd is away')
  assert.not.match(refused, /"stack"|\.ts:\d+/)
  assert.not.match(await readLog(Object.assign(new Error('reset'), { code: 'ECONNRESET' })), '"stack"')
  assert.match(await readLog(new TypeError('a fault')), /"stack"/)
})

test.run()
