import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { observeWorkload, type Pod } from '../../../../operator/runtime/pods/observation.ts'

const deployment = (status: object, replicas = 2) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'it-mcp', generation: 3 },
  spec: { replicas },
  status: { observedGeneration: 3, ...status },
})

const pod = (containerStatus: object, metadata: object = {}): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'it-mcp-0', ...metadata },
  status: { containerStatuses: [{ name: 'mcp', ...containerStatus }] },
})

const buildWaiting = (reason: string, more: object = {}) => ({
  state: { waiting: { reason, message: 'why' } },
  ...more,
})

const observe = (status: object, kind = 'Deployment') => observeWorkload({ ...deployment(status), kind }, [])

test('the newest revision is rolled out when kubectl rollout status says so', () => {
  const whole = { replicas: 2, readyReplicas: 2, updatedReplicas: 2, availableReplicas: 2 }
  assert.is(observe(whole).rollout, undefined)
  for (const [status, rollout] of [
    [{ ...whole, updatedReplicas: 1 }, '1 of 2 pods are of the newest revision'],
    // With surge the ready pods are the old ones.
    [{ ...whole, replicas: 3, updatedReplicas: 1 }, '1 of 2 pods are of the newest revision'],
    [{ ...whole, replicas: 3 }, '1 pod of an earlier revision still to go'],
    [{ ...whole, readyReplicas: 2, availableReplicas: 1 }, '1 of 2 pods of the newest revision are available'],
  ] as const)
    assert.is(observe(status).rollout, rollout)
  const [before, after] = [{ currentRevision: 'a' }, { updateRevision: 'a' }]
  assert.is(observe({ ...whole, ...before, ...after }, 'StatefulSet').rollout, undefined)
  assert.is(
    observe({ ...whole, ...before, updateRevision: 'b' }, 'StatefulSet').rollout,
    'the newest revision is being rolled out',
  )
})

test('while pods are missing, the steps of a rollout are not reported', () => {
  const steps = [{ observedGeneration: 1 }, {}, { updatedReplicas: 2 }, { replicas: 2, updatedReplicas: 2 }]
  assert.is(new Set(steps.map((status) => JSON.stringify(observe(status)))).size, 1)
})

test('pods that are ready count, of whatever revision: they serve', () => {
  const rolling = { readyReplicas: 2, updatedReplicas: 1 }
  assert.is(observeWorkload(deployment(rolling), []).readyReplicas, 2)
  const done = { readyReplicas: 2, updatedReplicas: 2 }
  assert.equal(observeWorkload(deployment(done), []), { replicas: 2, readyReplicas: 2 })
})

test('a status of an earlier generation does not count', () => {
  const early = { observedGeneration: 2, readyReplicas: 2, updatedReplicas: 2 }
  assert.is(observeWorkload(deployment(early), []).rollout, 'the newest revision is about to be rolled out')
})

test('only the newest pods can block a rollout', () => {
  const annotations = (hash: string) => ({ annotations: { 'portico.dev/template-hash': hash } })
  const live = deployment({ readyReplicas: 2, updatedReplicas: 1 })
  const rolling = { ...live, spec: { ...live.spec, template: { metadata: annotations('new') } } }
  const old = pod(buildWaiting('CrashLoopBackOff'), annotations('old'))
  assert.is(observeWorkload(rolling, [old]).reason, undefined)
  const both = [old, pod(buildWaiting('ImagePullBackOff'), { ...annotations('new'), name: 'it-mcp-1' })]
  assert.is(observeWorkload(rolling, both).reason, 'ImagePullBackOff')
})

test('a late rollout is reported if no other reason is known', () => {
  const conditions = [{ type: 'Progressing', status: 'False', reason: 'ProgressDeadlineExceeded', message: 'late' }]
  assert.is(observeWorkload(deployment({ conditions }), []).reason, 'ProgressDeadlineExceeded')
  assert.is(observeWorkload(deployment({ conditions }), [pod(buildWaiting('ErrImagePull'))]).reason, 'ErrImagePull')
})

test('the default number of pods is one', () => {
  const { spec: _, ...unset } = deployment({ readyReplicas: 1, updatedReplicas: 1 })
  assert.equal(observeWorkload(unset, []), { replicas: 1, readyReplicas: 1 })
})

test('scaled to zero there is nothing to wait for, whatever becomes of the pods that end', () => {
  const ending = pod({ state: { terminated: { exitCode: 137, reason: 'Killed' } } }, { deletionTimestamp: 'now' })
  assert.equal(observeWorkload(deployment({}, 0), [ending]), { replicas: 0, readyReplicas: 0 })
})

test('a terminating pod does not count', () => {
  const gone = pod(buildWaiting('CrashLoopBackOff'), { deletionTimestamp: '2026-11-20T11:00:00Z' })
  assert.is(observeWorkload(deployment({}), [gone]).reason, undefined)
  const { reason } = observeWorkload(deployment({}), [gone, pod(buildWaiting('ImagePullBackOff'))])
  assert.is(reason, 'ImagePullBackOff')
})

for (const reason of ['CrashLoopBackOff', 'CreateContainerError', 'InvalidImageName', 'ErrImagePull'])
  test(`${reason} is reported, with the container`, () => {
    const seen = observeWorkload(deployment({}), [pod(buildWaiting(reason))])
    assert.equal([seen.reason, seen.message], [reason, 'container mcp: why'])
  })

test('a restarting container is reported with its last end', () => {
  const last = { terminated: { exitCode: 2, message: ' no such file\n' } }
  const { message } = observeWorkload(deployment({}), [pod(buildWaiting('CrashLoopBackOff', { lastState: last }))])
  assert.is(message, 'container mcp: why; it last ended with exit code 2: no such file')
})

test('a failed container is reported, and one that ended well is not', () => {
  const observeExit = (exitCode: number) =>
    observeWorkload(deployment({}), [pod({ state: { terminated: { exitCode } } })])
  assert.equal([observeExit(1).reason, observeExit(1).message], ['Error', 'container mcp ended with exit code 1'])
  assert.is(observeExit(0).reason, undefined)
})

test('a starting pod is not a problem', () => {
  for (const reason of ['ContainerCreating', 'PodInitializing'])
    assert.is(observeWorkload(deployment({}), [pod(buildWaiting(reason))]).reason, undefined)
})

test('unschedulable pods and refused pods are reported', () => {
  const unscheduled: Pod = {
    ...pod({}),
    status: { conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: 'no memory' }] },
  }
  const { reason, message } = observeWorkload(deployment({}), [unscheduled])
  assert.equal([reason, message], ['Unschedulable', 'no memory'])
  const conditions = [{ type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate', message: 'quota' }]
  const refused = observeWorkload(deployment({ conditions }), [unscheduled])
  assert.equal([refused.reason, refused.message], ['FailedCreate', 'quota'])
})

test('a workload whose pods are ready has no problem, whatever another pod reports', () => {
  const ready = { readyReplicas: 2, updatedReplicas: 2 }
  assert.is(observeWorkload(deployment(ready), [pod(buildWaiting('ImagePullBackOff'))]).reason, undefined)
})

const timeAt = (second: number) => `2026-11-20T11:00:${String(second).padStart(2, '0')}Z`
/** A pod that ended as a whole, in the kubelet's form; it stays until it is collected. */
const buildFailedPod = (second: number, reason: string, containerStatuses: readonly object[] = []): Pod => {
  const metadata = { name: `failed-${second}`, creationTimestamp: timeAt(second) }
  const status = { phase: 'Failed', reason, message: 'why', containerStatuses } as Pod['status'] & object
  return { apiVersion: 'v1', kind: 'Pod', metadata, status }
}

test('pods that ended as a whole are no trouble of those that take their place', () => {
  const evicted = buildFailedPod(1, 'Evicted', [{ name: 'mcp', state: { terminated: { exitCode: 137 } } }])
  const running = pod({ state: { running: {} } }, { creationTimestamp: timeAt(2) })
  assert.is(observeWorkload(deployment({}), [evicted, running]).reason, undefined)
  const restarted = pod(buildWaiting('CrashLoopBackOff'), { creationTimestamp: timeAt(2) })
  assert.is(observeWorkload(deployment({}), [evicted, restarted]).reason, 'CrashLoopBackOff')
})

test('a kubelet’s error about earlier pods is reported for a pod that has not started', () => {
  const next = pod({}, { creationTimestamp: timeAt(9) })
  const observation = observeWorkload(deployment({}), [
    buildFailedPod(3, 'NodeAffinity'),
    buildFailedPod(8, 'UnexpectedAdmissionError'),
    buildFailedPod(5, 'OutOfcpu'),
    next,
  ])
  assert.equal([observation.reason, observation.message], ['UnexpectedAdmissionError', 'pod failed-8 failed: why'])
  // Pods that failed long before are unrelated.
  const later = pod({}, { creationTimestamp: '2026-11-20T12:00:00Z' })
  assert.is(observeWorkload(deployment({}), [buildFailedPod(8, 'UnexpectedAdmissionError'), later]).reason, undefined)
  // The time at which it ended counts, not the time at which it was created.
  const transition = { type: 'Ready', status: 'False', lastTransitionTime: '2026-11-20T11:59:58Z' }
  const old = buildFailedPod(8, 'Evicted')
  const conditions = [transition]
  assert.is(
    observeWorkload(deployment({}), [{ ...old, status: { ...old.status, conditions } }, later]).reason,
    'Evicted',
  )
})

test('a long message of a runtime is cut', () => {
  const long = { state: { waiting: { reason: 'ErrImagePull', message: 'x'.repeat(5000) } } }
  assert.is(observeWorkload(deployment({}), [pod(long)]).message?.length, 300)
})

test.run()
