import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ApiError, type ApiServer } from '../../../../operator/cluster/kubernetes/api-server.ts'
import type { Resource } from '../../../../operator/cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../../../operator/model/index.ts'
import { clusterAddress } from '../../../../operator/reconcile/index.ts'
import { createParts } from '../../../../operator/runtime/loop/parts.ts'
import { kindStore, trimObject } from '../../../../operator/runtime/watch/kind-store.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { addDefaults } from '../../../support/operator/plans.ts'
import { unwrap } from '../../../support/unwrap.ts'

const KEY = 'MCPRemoteProxy/team/a'

const proxy = (remoteUrl: string, resourceVersion: string): KubernetesObject =>
  addDefaults({
    apiVersion: 'portico.dev/v1beta1',
    kind: 'MCPRemoteProxy',
    metadata: { name: 'a', namespace: 'team', uid: 'of-a', generation: 1, resourceVersion },
    spec: { remoteUrl },
  })

const configIn = (child: KubernetesObject | undefined) => JSON.stringify(child?.['data'])

interface Write {
  readonly what: string
  readonly object: KubernetesObject
}

/**
 * Starts the parts of an operator with one proxy, against an API server that accepts everything; `onWrite` runs after
 * each write.
 */
function running(
  onWrite: (write: Write, parts: ReturnType<typeof createParts>) => void = () => undefined,
  finalize: () => Promise<void> = async () => undefined,
) {
  const writes: Write[] = []
  let plans = 0
  let version = 100
  const noteWrite = (what: string, object: KubernetesObject) => {
    const { uid = `of-${what}`, ...metadata } = object.metadata
    const managedFields = [{ manager: 'portico', operation: 'Apply', fieldsV1: {}, time: '2026-11-26T00:00:00Z' }]
    const live = { ...object, metadata: { ...metadata, uid, resourceVersion: String(++version), managedFields } }
    writes.push({ what, object: live })
    onWrite({ what, object: live }, parts)
    return structuredClone(live)
  }
  const api = {
    apply: async (_: Resource, object: KubernetesObject) => noteWrite(object.kind, object),
    jsonPatch: async (_: Resource, __: string, ___: string, { operations }: { operations: { value: unknown }[] }) => {
      const status = operations.at(-1)?.value
      const object = parts.world.objects.get('MCPRemoteProxy', 'team', 'a') as KubernetesObject
      return noteWrite('status', { ...object, status })
    },
    request: async () => ({ metadata: { name: 'team' } }),
    create: async () => ({}),
  } as unknown as ApiServer
  const resource: Resource = {
    group: 'portico.dev',
    version: 'v1beta1',
    plural: 'mcpremoteproxies',
    kind: 'MCPRemoteProxy',
  }
  const parts = createParts(
    {
      context: {
        group: 'portico.dev',
        image: 'portico:test',
        // Called once for each plan of a proxy.
        resolveAddress(service) {
          plans++
          return clusterAddress(service)
        },
      },
      namespaces: [],
      identity: 'test',
      log: recordLog().log,
      readStatus: () => async () => ({}),
    },
    {
      api,
      resources: new Map([[resource.kind, resource]]),
      leading: () => true,
      assertLeading: () => undefined,
      finalize,
    },
  )
  parts.world.objects.put(proxy('https://first.example/mcp', '1'))
  parts.queue.add(KEY)
  return {
    parts,
    writes,
    plans: () => plans,
    of: (what: string) => writes.filter((write) => write.what === what).map(({ object }) => object),
    /** Runs one reconcile, as a worker does. */
    async work() {
      const key = (await parts.queue.take()) as string
      const outcome = await parts.reconciler.run(key, parts.queue)
      parts.queue.done(key)
      return outcome
    },
  }
}

test('a new workload is planned once, and its only status reports the written children', async () => {
  const { parts, of, plans, work } = running()
  assert.equal(await work(), { again: false })
  assert.is(plans(), 1)
  assert.is(of('status').length, 1)
  const status = of('status')[0]?.['status']
  assert.is((status as { phase: string } | undefined)?.phase, 'Pending')
  assert.match(JSON.stringify(status), /0 of 1 pods are ready/)
  assert.is(parts.queue.depth, 0, 'nothing is due again for its own writes')
})

test('the same holds if the watch delivers a write before its answer', async () => {
  const { parts, plans, of, work } = running(({ object }, { observers }) => {
    if (object.kind !== 'MCPRemoteProxy') observers.children.store(object.kind).put(structuredClone(object))
  })
  await work()
  assert.is(plans(), 1)
  assert.is(of('status').length, 1)
  assert.is(parts.queue.depth, 0)
})

test('an object that changes while its children are written is planned again, and the old plan is not reported', async () => {
  let isChanged = false
  const { of, plans, parts, work } = running(({ what }, { world, due }) => {
    if (what !== 'Deployment' || isChanged) return
    isChanged = true
    const next = proxy('https://second.example/mcp', '2')
    world.objects.put(next)
    due.objectChanged('MODIFIED' as never, next)
  })
  await work()
  assert.is(plans(), 2)
  assert.match(configIn(of('ConfigMap').at(-1)), /second\.example/)
  assert.is(of('status').length, 1)
  assert.is(parts.queue.depth, 0)
})

test('a child that is changed while others are written is corrected before the status is written', async () => {
  let isEdited = false
  const { of, plans, writes, work } = running(({ what, object }, { observers }) => {
    if (what !== 'Deployment' || isEdited) return
    isEdited = true
    const { children } = observers
    const config = children.get('ConfigMap', 'team', of('ConfigMap')[0]?.metadata.name ?? '') as KubernetesObject
    const resourceVersion = String(Number(object.metadata.resourceVersion) + 1000)
    children.store('ConfigMap').put({ ...config, data: {}, metadata: { ...config.metadata, resourceVersion } })
  })
  await work()
  assert.is(of('ConfigMap').length, 2)
  assert.match(configIn(of('ConfigMap').at(-1)), /first\.example/)
  assert.is(plans(), 1)
  assert.is(writes.at(-1)?.what, 'status')
})

test('a change by others counts once the watch delivers it, even if an answer to our write had it', async () => {
  const referring = (name: string, resourceVersion: string) => {
    const { spec, ...object } = proxy('https://first.example/mcp', resourceVersion)
    return { ...object, spec: { ...(spec as object), telemetryConfigRef: { name } } }
  }
  const { spec } = referring('second', '3')
  const changes: Readonly<Record<string, object>> = {
    'another reference': { generation: 2 },
    'a label': { labels: { a: 'b' } },
    'a finalizer': { finalizers: ['example.com/x'] },
    nothing: {},
  }
  for (const [what, change] of Object.entries(changes)) {
    const { parts, of, work } = running((write) => {
      if (write.what !== 'status') return
      Object.assign(write.object.metadata, change)
      if ('generation' in change) Object.assign(write.object, { spec })
    })
    const changes: string[] = []
    const { put } = kindStore({
      world: parts.world,
      kind: 'MCPRemoteProxy',
      log: recordLog().log,
      isEcho: parts.reconciler.isEcho,
      onChange: (dependency) => void changes.push(dependency),
      onObject: (type) => void changes.push(type),
    })
    put(referring('first', '2'))
    await work()
    changes.length = 0
    put(trimObject(structuredClone(of('status')[0] as KubernetesObject)))
    const references = ['first', 'second'].map((name) => `<-MCPTelemetryConfig/team/${name}`)
    const both = changes.filter((dependency) => references.includes(dependency))
    assert.equal(
      both,
      what === 'another reference' ? references : what === 'a label' ? Array(2).fill(references[0]) : [],
      what,
    )
    assert.is(changes.includes('MODIFIED'), what !== 'nothing', what)
  }
})

test('an object that another finalizer holds under deletion is reported as terminating, and not written any more', async () => {
  for (const [finalizers, phases] of [
    [['foregroundDeletion'], ['Terminating']],
    [[], []],
  ] as const) {
    const { parts, of, writes, work } = running()
    const object = proxy('https://first.example/mcp', '2')
    const metadata = { ...object.metadata, deletionTimestamp: '2026-11-26T00:00:00Z', finalizers: [...finalizers] }
    parts.world.objects.put({ ...object, metadata })
    assert.equal(await work(), { again: false })
    assert.equal(
      of('status').map(({ status }) => (status as { phase: string }).phase),
      phases,
    )
    assert.is(writes.length, phases.length)
  }
})

test('a refused finalizer is reported and tried again, and the planned children are written', async () => {
  let answer: Error | undefined = new ApiError(403, 'Forbidden', 'a policy: not by you')
  const { of, work } = running(undefined, async () => {
    if (answer) throw answer
  })
  assert.equal(await work(), { again: true })
  assert.is(of('Deployment').length, 1, 'it is served')
  const { conditions } = unwrap(of('status')[0]?.['status'], 'a status') as {
    readonly conditions: readonly { type: string }[]
  }
  assert.match(
    JSON.stringify(conditions.find(({ type }) => type === 'Ready')),
    /"False".*"FinalizerRefused".*the finalizer portico.dev\/in-use can’t be removed: a policy: not by you/,
  )
  answer = new ApiError(500, 'InternalError', 'later')
  const again = running(undefined, async () => {
    if (answer) throw answer
  })
  await again.work().then(
    () => assert.unreachable('it is tried again'),
    (error) => assert.is(error, answer),
  )
})

test.run()
