import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { KubernetesObject } from '../../../../operator/model/view.ts'
import type { FieldSet } from '../../../../operator/runtime/children/field-set.ts'
import {
  foreignManagers,
  type ManagedFields,
  ownFields,
  takenOver,
} from '../../../../operator/runtime/children/managed-fields.ts'
import { keptChild } from '../../../../operator/runtime/watch/kept.ts'

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

const cases: readonly [what: string, spec: FieldSet, live: object, found: boolean, more?: Partial<ManagedFields>][] = [
  ['another port', { 'f:ports': item(81) }, { ports: [port(81)] }, true],
  ['a value of ours', { 'f:ports': { 'k:{"port":80,"protocol":"TCP"}': { 'f:targetPort': {} } } }, {}, false],
  ['a field that nobody renders', { 'f:externalIPs': {} }, { externalIPs: ['192.0.2.1'] }, true],
  ['what the server allots', { 'f:clusterIP': {} }, { clusterIP: '10.0.0.1' }, false],
  ['a node port', { 'f:ports': { 'k:{"port":80,"protocol":"TCP"}': { 'f:nodePort': {} } } }, {}, false],
  ['a map that is one value, with more in it', { 'f:selector': {} }, { selector: { app: 'it', more: 'x' } }, true],
  ['the same map', { 'f:selector': {} }, {}, false],
  ['what a webhook adds to our own write', { 'f:externalIPs': {} }, {}, false, { manager: 'portico' }],
  ['a subresource', { 'f:externalIPs': {} }, {}, false, { subresource: 'status' }],
]

for (const [what, spec, live, found, more] of cases)
  test(`of others: ${what}`, () => {
    const there = service(80, [ours, entry('bob', spec, more)], live)
    assert.equal(foreignManagers(service(80), there), found ? ['bob'] : [])
  })

test('a child as it is kept says the same', () => {
  const fresh = () => service(80, [ours, entry('bob', { 'f:externalIPs': {} })], { externalIPs: ['192.0.2.1'] })
  const kept = keptChild(fresh())
  assert.type((kept.metadata as { managedFields?: unknown }).managedFields, 'string')
  assert.equal(foreignManagers(service(80), kept), ['bob'])
  assert.equal(ownFields(kept), ours.fieldsV1)
  const takeOver = { all: false, owners: [] }
  assert.equal(takenOver(keptChild(kept), takeOver), takenOver(fresh(), takeOver))
})

test('metadata of others stays theirs, all else becomes ours', () => {
  const theirs = {
    'f:metadata': { 'f:labels': { 'f:team': {} } },
    'f:spec': { 'f:ports': item(81), 'f:clusterIP': {} },
  }
  const bob = { ...entry('bob', {}), fieldsV1: theirs }
  const status = entry('controller', {}, { subresource: 'status' })
  const entries = takenOver(service(81, [ours, bob, status]), { all: false, owners: [] })
  assert.equal(entries, [
    { ...ours, fieldsV1: { 'f:spec': { 'f:selector': {}, 'f:ports': item(81) } } },
    { ...bob, fieldsV1: { 'f:metadata': theirs['f:metadata'], 'f:spec': { 'f:clusterIP': {} } } },
    status,
  ])
})

test('an adopted object keeps nothing that was written under our name, nor its former owner', () => {
  const owner = { 'f:ownerReferences': { '.': {}, 'k:{"uid":"old"}': {}, 'k:{"uid":"other"}': {} } }
  const bob = { ...entry('bob', {}), fieldsV1: { 'f:metadata': owner } }
  const named = entry('portico', { 'f:externalIPs': {} })
  const entries = takenOver(service(80, [bob, named]), { all: true, owners: ['old'] })
  assert.equal(ownFields(service(80, entries)), {
    'f:metadata': { 'f:ownerReferences': { 'k:{"uid":"old"}': {} } },
    'f:spec': { 'f:externalIPs': {} },
  })
  assert.equal(entries.slice(1), [
    { ...bob, fieldsV1: { 'f:metadata': { 'f:ownerReferences': { '.': {}, 'k:{"uid":"other"}': {} } } } },
  ])
})

test.run()
