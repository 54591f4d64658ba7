import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { KubernetesObject } from '../../../../operator/model/view.ts'
import { trimChild } from '../../../../operator/runtime/children/child-cache.ts'
import {
  conflictingFields,
  type FieldSet,
  foreignManagers,
  hasForeignFields,
  holdsReplicas,
  lastApplied,
  type ManagedFields,
  ownFields,
  takenOver,
} from '../../../../operator/runtime/children/managed-fields.ts'

const port = (number: number) => ({ name: 'mcp', port: number, protocol: 'TCP', targetPort: 'mcp' })
const service = (number: number, entries: readonly ManagedFields[] = [], spec: object = {}): KubernetesObject => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'it', managedFields: entries } as never,
  spec: { selector: { app: 'it' }, ports: [port(number)], ...spec },
})
const entry = (manager: string, spec: FieldSet, more: Partial<ManagedFields> = {}): ManagedFields => ({
  manager,
  operation: 'Update',
  apiVersion: 'v1',
  fieldsType: 'FieldsV1',
  fieldsV1: { 'f:spec': spec },
  ...more,
})
const ours = entry('portico', { 'f:selector': {} }, { operation: 'Apply' })
const item = (number: number): FieldSet => ({
  [`k:{"port":${number},"protocol":"TCP"}`]: { '.': {}, 'f:name': {}, 'f:port': {} },
})

const cases: readonly [
  what: string,
  spec: FieldSet,
  live: object,
  found: boolean,
  isCompared: boolean,
  more?: Partial<ManagedFields>,
][] = [
  ['another port', { 'f:ports': item(81) }, { ports: [port(81)] }, true, true],
  ['a value of ours', { 'f:ports': { 'k:{"port":80,"protocol":"TCP"}': { 'f:targetPort': {} } } }, {}, false, true],
  ['a field that nobody renders', { 'f:externalIPs': {} }, { externalIPs: ['192.0.2.1'] }, true, true],
  ['what the server allots', { 'f:clusterIP': {} }, { clusterIP: '10.0.0.1' }, false, false],
  ['a node port', { 'f:ports': { 'k:{"port":80,"protocol":"TCP"}': { 'f:nodePort': {} } } }, {}, false, false],
  [
    'a map that is one value, with more in it',
    { 'f:selector': {} },
    { selector: { app: 'it', more: 'x' } },
    true,
    true,
  ],
  ['the same map', { 'f:selector': {} }, {}, false, true],
  ['what a webhook adds to our own write', { 'f:externalIPs': {} }, {}, false, false, { manager: 'portico' }],
  ['a subresource', { 'f:externalIPs': {} }, {}, false, false, { subresource: 'status' }],
]

for (const [what, spec, live, found, isCompared, more] of cases)
  test(`of others: ${what}`, () => {
    const there = service(80, [ours, entry('bob', spec, more)], live)
    assert.equal(foreignManagers(service(80), there), found ? ['bob'] : [])
    const child = trimChild(there)
    assert.equal(foreignManagers(service(80), child), found ? ['bob'] : [])
    assert.is(hasForeignFields(child), isCompared)
    assert.equal(trimChild(structuredClone(child)), child)
  })

test('a cached child has the time of our last apply, and whether it holds the replicas', () => {
  const keptWithFields = (spec: FieldSet) =>
    trimChild(service(80, [{ ...ours, time: '2026-01-02T03:04:05Z', fieldsV1: { 'f:spec': spec } }]))
  assert.is(lastApplied(keptWithFields({ 'f:selector': {} })), '2026-01-02T03:04:05Z')
  assert.is(holdsReplicas(keptWithFields({ 'f:selector': {} })), false)
  assert.is(holdsReplicas(keptWithFields({ 'f:replicas': {} })), true)
  assert.is(ownFields(trimChild(service(80, [entry('bob', {})]))), undefined)
})

test('metadata of others stays theirs, all else becomes ours', () => {
  const theirs = {
    'f:metadata': { 'f:labels': { 'f:team': {} } },
    'f:spec': { 'f:ports': item(81), 'f:clusterIP': {} },
  }
  const bob = { ...entry('bob', {}), fieldsV1: theirs }
  const status = entry('controller', {}, { subresource: 'status' })
  const entries = takenOver(service(81, [ours, bob, status]), { all: false, owners: [], fields: [] })
  assert.equal(entries, [
    { ...ours, fieldsV1: { 'f:spec': { 'f:selector': {}, 'f:ports': item(81) } } },
    { ...bob, fieldsV1: { 'f:metadata': theirs['f:metadata'], 'f:spec': { 'f:clusterIP': {} } } },
    status,
  ])
})

test('a user’s ranges are removed with the type that they are for', () => {
  const ranges = { 'f:spec': { 'f:loadBalancerSourceRanges': {} } }
  const spec = { type: 'LoadBalancer', loadBalancerSourceRanges: ['192.0.2.0/24'] }
  const live = { ...service(80, [ours, { ...entry('bob', {}), fieldsV1: ranges }]), spec }
  const withType = (type: string) => ({ ...service(80), spec: { type } })
  assert.equal(conflictingFields(withType('LoadBalancer'), live), [])
  const fields = conflictingFields(withType('NodePort'), live)
  assert.equal(takenOver(live, { all: false, owners: [], fields }), [
    { ...ours, fieldsV1: { 'f:spec': { 'f:selector': {}, 'f:loadBalancerSourceRanges': {} } } },
  ])
  assert.equal(conflictingFields(withType('NodePort'), { ...live, spec: { type: 'LoadBalancer' } }), [])
})

test('an adopted object keeps nothing that was written under our name, nor its former owner', () => {
  const owner = { 'f:ownerReferences': { '.': {}, 'k:{"uid":"old"}': {}, 'k:{"uid":"other"}': {} } }
  const bob = { ...entry('bob', {}), fieldsV1: { 'f:metadata': owner } }
  const named = entry('portico', { 'f:externalIPs': {} })
  const entries = takenOver(service(80, [bob, named]), { all: true, owners: ['old'], fields: [] })
  assert.equal(ownFields(service(80, entries)), {
    'f:metadata': { 'f:ownerReferences': { 'k:{"uid":"old"}': {} } },
    'f:spec': { 'f:externalIPs': {} },
  })
  assert.equal(entries.slice(1), [
    { ...bob, fieldsV1: { 'f:metadata': { 'f:ownerReferences': { '.': {}, 'k:{"uid":"other"}': {} } } } },
  ])
})

test.run()
