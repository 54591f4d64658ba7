/** Checks text of strangers in another thread with a deadline, while other objects are reconciled. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { authzFindings } from '../../../../dataplane/config/check/authz.ts'
import type { ApiServer } from '../../../../operator/cluster/kubernetes/api-server.ts'
import type { KubernetesObject } from '../../../../operator/model/index.ts'
import { clusterAddress } from '../../../../operator/reconcile/index.ts'
import { Checks } from '../../../../operator/runtime/checks/checks.ts'
import { createParts } from '../../../../operator/runtime/loop/parts.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { addDefaults } from '../../../support/operator/plans.ts'

const { log } = recordLog()
const policy = (name: string) => `permit(principal, action, resource == Tool::"${name}");`

/** Returns the findings of a policy that is not cached yet. */
async function findings(checks: Checks, namespace: string, text: string): Promise<readonly string[]> {
  for (;;) {
    const outcome = checks.on(namespace, () => authzFindings({ policies: [text] }, '/at'))
    if ('made' in outcome) return outcome.made.map(({ pointer, message }) => `${pointer} ${message}`)
    await outcome.checked
  }
}

test('a check is run once, in a thread, and its result stays', async () => {
  const checks = new Checks({ log })
  assert.equal(await findings(checks, 'a', policy('one')), [])
  assert.ok('made' in checks.on('b', () => authzFindings({ policies: [policy('one')] }, '')), 'it is known to all')
  assert.match((await findings(checks, 'a', 'permit(')).join(), /^\/at\/policies\/0 line 1/)
  assert.is(checks.pending, 0)
  checks.close()
})

test('a check that takes too long is refused with a reason, and the next one runs', async () => {
  const checks = new Checks({ log, deadlineMs: 1 })
  const [late, later] = await Promise.all([
    findings(checks, 'a', policy('late')),
    findings(checks, 'b', policy('later')),
  ])
  assert.equal(late, ['/at/policies can’t be checked within 0.001 seconds: make it smaller'])
  assert.equal(late, later)
  const patient = new Checks({ log })
  assert.equal(await findings(patient, 'b', policy('in time')), [])
  patient.close()
  checks.close()
})

test('namespaces take turns', async () => {
  const checks = new Checks({ log })
  const order: string[] = []
  const checkOne = async (namespace: string, name: string) => {
    await findings(checks, namespace, policy(`${namespace}-${name}`))
    order.push(`${namespace}-${name}`)
  }
  const many = Array.from({ length: 20 }, (_, index) => checkOne('hostile', String(index)))
  await Promise.all([...many, checkOne('team', 'a')])
  assert.ok(order.indexOf('team-a') <= 2, order.join())
  checks.close()
})

const KEY = 'MCPAuthzConfig/team/rules'

/** Starts the parts of an operator with one object, against an API server that accepts everything. */
function operator(object: KubernetesObject) {
  const statuses: { readonly conditions: readonly { type: string; status: string; message: string }[] }[] = []
  const api = {
    jsonPatch: async (_: unknown, __: string, ___: string, { operations }: { operations: { value: unknown }[] }) => {
      const status = operations.at(-1)?.value
      statuses.push(status as never)
      return { ...object, status }
    },
    request: async () => ({ metadata: { name: 'team' } }),
    create: async () => ({}),
  } as unknown as ApiServer
  const resource = { group: 'portico.dev', version: 'v1beta1', plural: 'mcpauthzconfigs', kind: 'MCPAuthzConfig' }
  const parts = createParts(
    {
      context: { group: 'portico.dev', image: 'portico:test', resolveAddress: clusterAddress },
      namespaces: [],
      identity: 'test',
      log,
      readStatus: () => async () => ({}),
    },
    {
      api,
      resources: new Map([[resource.kind, resource]]),
      leading: () => true,
      assertLeading: () => undefined,
      finalize: async () => undefined,
    },
  )
  parts.world.objects.put(object)
  parts.queue.add(KEY)
  return { parts, statuses }
}

test('an object under check holds no worker, and is due again when the check ends', async () => {
  const { parts, statuses } = operator(
    addDefaults({
      apiVersion: 'portico.dev/v1beta1',
      kind: 'MCPAuthzConfig',
      metadata: { name: 'rules', namespace: 'team', uid: 'of-rules', generation: 1, resourceVersion: '1' },
      spec: { type: 'cedarv1', config: { policies: [policy('of rules'), 'forbid('] } },
    }),
  )
  const runCheck = async () => {
    const key = (await parts.queue.take()) as string
    await parts.reconciler.run(key, parts.queue)
    parts.queue.done(key)
    return key
  }
  assert.is(await runCheck(), KEY)
  assert.is(statuses.length, 0, 'nothing is reported before it is known')
  assert.is(parts.checks.pending, 1)
  assert.is(await runCheck(), KEY)
  assert.is(statuses.length, 1)
  const valid = statuses[0]?.conditions.find(({ type }) => type === 'Valid')
  assert.is(valid?.status, 'False')
  assert.match(valid?.message ?? '', /\/spec\/config\/policies\/1: line 1/)
  parts.checks.close()
})

test.run()
