import { readdirSync, readFileSync } from 'node:fs'
import { Ajv, type ValidateFunction } from 'ajv'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { kinds } from '../../../crds/index.ts'
import { createView, type KubernetesObject } from '../../../operator/model/index.ts'
import { type Plan, type PlannedObject, planAll, reconcile } from '../../../operator/reconcile/index.ts'
import { canonicalJson } from '../../../operator/render/object/canonical.ts'
import { context, worldContent } from '../../support/operator/plans.ts'

const folder = new URL('../golden/', import.meta.url)
const inputs = readdirSync(folder).filter((name) => name.endsWith('.in.yaml'))

const ajv = new Ajv({ strict: false, formats: { int32: true, int64: true, 'date-time': true } })
const validators = new Map<string, ValidateFunction>(
  Object.values(kinds).map(({ kind, status }) => [kind, ajv.compile(status)]),
)

const withStatus = (planned: readonly PlannedObject[]) =>
  planned.map(({ object, plan }) => ({ ...object, status: plan.status }) as KubernetesObject)

for (const name of inputs) {
  const content = () => worldContent(readFileSync(new URL(name, folder), 'utf8'))

  test(`${name}: the API server accepts every status`, () => {
    for (const { object, plan } of planAll(createView(content()), context)) {
      const validate = validators.get(object.kind) as ValidateFunction
      validate(plan.status)
      assert.equal(validate.errors ?? [], [], `${object.kind} ${object.metadata.name}`)
      const types = plan.status.conditions.map(({ type }) => type)
      assert.equal([...new Set(types)], types, 'each type once')
    }
  })

  test(`${name}: a status fed back gives the same plan, at any later time`, () => {
    const input = content()
    const first = planAll(createView(input), context)
    const later = { ...context, now: '2027-01-01T00:00:00Z' }
    const second = planAll(createView({ ...input, objects: withStatus(first) }), later)
    for (const [at, { plan }] of first.entries()) assert.equal(second[at]?.plan, plan)
  })

  test(`${name}: planning changes nothing that it was given`, () => {
    const input = content()
    const before = canonicalJson(input.objects)
    planAll(createView(input), context)
    assert.is(canonicalJson(input.objects), before)
  })
}

const server = (spec: object, status?: object): KubernetesObject => ({
  apiVersion: 'portico.dev/v1beta1',
  kind: 'MCPServer',
  metadata: { name: 'it', namespace: 'default', generation: 2 },
  spec: {
    image: 'x',
    transport: 'streamable-http',
    proxyPort: 8080,
    sessionAffinity: 'None',
    serviceType: 'ClusterIP',
    ...spec,
  },
  ...(status ? { status } : {}),
})

const planObject = (object: KubernetesObject, now: string): Plan =>
  reconcile(object, createView({ objects: [object] }), { ...context, now })

test('lastTransitionTime moves when the status of a condition does, and only then', () => {
  const good = planObject(server({}), '2026-01-01T00:00:00Z')
  const bad = planObject(server({ groupRef: { name: 'gone' } }, good.status), '2026-01-02T00:00:00Z')
  const worse = planObject(server({ groupRef: { name: 'lost' } }, bad.status), '2026-01-03T00:00:00Z')
  const time = (plan: Plan, type: string) =>
    plan.status.conditions.find((condition) => condition.type === type)?.lastTransitionTime
  assert.is(time(good, 'ReferencesResolved'), '2026-01-01T00:00:00Z')
  assert.is(time(bad, 'ReferencesResolved'), '2026-01-02T00:00:00Z')
  assert.is(time(worse, 'ReferencesResolved'), '2026-01-02T00:00:00Z')
  assert.is(time(worse, 'Valid'), '2026-01-01T00:00:00Z')
})

test('the status of a held workload keeps describing the running set', () => {
  const good = planObject(server({}), context.now)
  const refused = planObject(server({ groupRef: { name: 'gone' }, proxyPort: 9999 }, good.status), context.now)
  assert.is(refused.children, 'hold')
  assert.is(refused.status['url'], 'http://mcp-it.default.svc.cluster.local:8080/mcp')
  assert.is(refused.status['configHash'], good.status['configHash'])
  assert.is(refused.status.observedGeneration, 2)
})

test('a workload under deletion leaves its children to the garbage collector', () => {
  const object = server({})
  object.metadata.deletionTimestamp = '2026-11-20T11:00:00Z'
  const plan = planObject(object, context.now)
  assert.is(plan.children, 'hold')
  assert.is(plan.status['phase'], 'Terminating')
  assert.is(plan.finalizer, false)
})

test('an object of a foreign kind is refused', () => {
  assert.throws(() => reconcile({ kind: 'Pod' }, createView({ objects: [] }), context), /not a kind of ours: Pod/)
})

test.run()
