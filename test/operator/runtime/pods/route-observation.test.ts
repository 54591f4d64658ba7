import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { observeRoute } from '../../../../operator/runtime/pods/observers.ts'

const condition = (type: string, status: string, observedGeneration = 2) => ({
  type,
  status,
  reason: `${type}Reason`,
  message: 'why',
  observedGeneration,
})

const route = (parents: readonly object[] | undefined) => ({
  apiVersion: 'gateway.networking.k8s.io/v1',
  kind: 'HTTPRoute',
  metadata: { name: 'all-vmcp', generation: 2 },
  spec: { parentRefs: [{ name: 'public' }, { name: 'inside' }] },
  ...(parents === undefined ? {} : { status: { parents } }),
})

const parent = (name: string, ...conditions: readonly object[]) => ({
  parentRef: { name, namespace: 'edge' },
  conditions,
})

test('a route without a report', () => {
  assert.equal(observeRoute(route(undefined)), { gateways: 2, accepted: 0, refusals: [] })
})

test('Gateways that accept a route are counted, and others give their reason', () => {
  const seen = observeRoute(
    route([
      parent('public', condition('Accepted', 'True'), condition('ResolvedRefs', 'True')),
      parent('inside', condition('Accepted', 'False'), condition('Programmed', 'False')),
    ]),
  )
  assert.equal(seen, {
    gateways: 2,
    accepted: 1,
    refusals: ['Gateway "edge/inside": Accepted is False (AcceptedReason): why'],
  })
})

test('a Gateway that doesn’t find the Service is reported', () => {
  const seen = observeRoute(
    route([parent('public', condition('Accepted', 'True'), condition('ResolvedRefs', 'False'))]),
  )
  assert.equal(seen.refusals, ['Gateway "edge/public": ResolvedRefs is False (ResolvedRefsReason): why'])
})

test('a report on an earlier generation of the route does not count', () => {
  const seen = observeRoute(
    route([parent('public', condition('Accepted', 'True', 1)), parent('inside', condition('Accepted', 'False', 1))]),
  )
  assert.equal(seen, { gateways: 2, accepted: 0, refusals: [] })
})

test.run()
