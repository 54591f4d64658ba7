import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { withBoundedLists } from '../../../../operator/reconcile/index.ts'
import type { Condition, Plan } from '../../../../operator/reconcile/outcome/plan.ts'

const NOW = '2026-11-20T12:00:00Z'
const names = (count: number, length = 52) =>
  Array.from({ length: count }, (_, index) => `${'n'.repeat(length - 6)}${String(index).padStart(6, '0')}`)
const referrers = (count: number, length?: number) =>
  names(count, length).map((name) => ({ kind: 'VirtualMCPServer', name }))

const object = (spec: object = {}) => ({ metadata: { name: 'it', generation: 3 }, spec })
const plan = (lists: Record<string, readonly unknown[]>): Plan => ({
  children: [],
  status: {
    conditions: [{ type: 'Ready', status: 'True', reason: 'Ready', message: '', lastTransitionTime: NOW }],
    observedGeneration: 3,
    ...lists,
  },
  events: [],
  finalizer: true,
})
const findTruncated = ({ status }: Plan): Condition | undefined =>
  status.conditions.find(({ type }) => type === 'ListTruncated')
const bytes = (value: unknown) => Buffer.byteLength(JSON.stringify(value))

test('ten thousand names of 52 characters are listed whole', () => {
  const whole = plan({ referencingWorkloads: referrers(10_000) })
  const { status } = withBoundedLists(object(), whole, NOW)
  assert.equal(status, whole.status)
  assert.ok(bytes(status) < 1_000_000, `${bytes(status)}`)
})

test('a longer list has the first ten thousand names, the count and a condition', () => {
  const bounded = withBoundedLists(object(), plan({ referencingWorkloads: referrers(10_007) }), NOW)
  assert.equal(bounded.status['referencingWorkloads'], referrers(10_000))
  assert.is(bounded.status['referencingWorkloadCount'], 10_007)
  assert.equal(findTruncated(bounded), {
    type: 'ListTruncated',
    status: 'True',
    reason: 'TooManyToList',
    message: 'referencingWorkloads has the first 10000 of 10007',
    observedGeneration: 3,
    lastTransitionTime: NOW,
  })
  assert.is(bounded.status.conditions[0]?.type, 'ListTruncated', 'conditions are by type')
})

test('lists stay below the object size of etcd, for any names and spec', () => {
  const long = withBoundedLists(object(), plan({ entries: names(10_000, 253) }), NOW)
  assert.ok(bytes(long.status) < 1_001_000)
  assert.match(findTruncated(long)?.message ?? '', /^entries has the first 3\d{3} of 10000$/)

  const lists = { servers: names(9_000), remoteProxies: names(10_000), entries: names(200) }
  const three = withBoundedLists(object(), plan(lists), NOW)
  assert.ok(bytes(three.status) < 1_001_000)
  assert.equal(three.status['entries'], lists.entries, 'a short list is whole')
  assert.equal(three.status['servers'], lists.servers)
  assert.match(findTruncated(three)?.message ?? '', /^remoteProxies has the first 8\d{3} of 10000$/)

  const large = object({ text: 'x'.repeat(1_000_000) })
  const beside = withBoundedLists(large, plan({ referencingWorkloads: referrers(10_000) }), NOW)
  assert.ok(bytes(large) + bytes(beside.status) < 1_500_000)
  assert.ok((beside.status['referencingWorkloads'] as unknown[]).length > 4_000)
})

test.run()
