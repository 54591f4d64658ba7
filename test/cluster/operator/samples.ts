import { execFileSync } from 'node:child_process'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseAllDocuments } from 'yaml'
import { matches } from '../../../operator/runtime/children/matches.ts'
import type { LiveObject } from '../../support/operator/live-object.ts'
import { porticoProgram } from '../../support/portico-program.ts'
import { unwrap } from '../../support/unwrap.ts'
import { newCluster } from '../support/cluster.ts'
import { eventually, OPERATOR_USER } from '../support/operator-process.ts'

const root = new URL('../../..', import.meta.url).pathname
const [program, ...options] = porticoProgram
const SAMPLES = 'samples/quickstart'

const cluster = newCluster()
const { kubectl } = cluster

test.before(() => cluster.install())
test.after(() => cluster.stop())

const renderSamples = (): LiveObject[] => {
  const text = execFileSync(program, [...options, 'render', SAMPLES], {
    cwd: root,
    encoding: 'utf8',
  })
  return parseAllDocuments(text).map((document) => document.toJS())
}

const listManaged = (namespace = 'default') =>
  cluster.list('deployments,statefulsets,services,configmaps,serviceaccounts,networkpolicies,roles,rolebindings,pvc', {
    namespace,
    labels: 'app.kubernetes.io/managed-by=portico',
  })

const title = ({ kind, metadata }: LiveObject) => `${kind}/${metadata.name}`

test('the namespaced variant has all the rights that it needs from its Role alone', async () => {
  const may = () => cluster.may(OPERATOR_USER, 'watch', 'mcpservers', { namespace: 'portico-system' })
  await cluster.removeAndWait('clusterrolebinding', ['portico-operator'])
  await eventually(() => !may(), 'the ClusterRole applies no more')
  kubectl(['apply', '-f', `${cluster.plane.directory}/deploy/namespaced/rbac.yaml`])
  await eventually(may, 'the Role applies')
  await cluster.startOperator(['--namespace', 'portico-system', '--leader-elect'])
  kubectl(['apply', '-n', 'portico-system', '-f', `${root}/${SAMPLES}`])
  const count = renderSamples().length
  await eventually(() => listManaged('portico-system').length === count, 'the children exist')
  assert.not.match(cluster.operator.log(), 'forbidden')
  await cluster.operator.stop()
})

test('`portico render` equals the objects of the cluster, except for fields that the server and ownership add', async () => {
  kubectl(['apply', '-f', `${cluster.plane.directory}/deploy/rbac.yaml`])
  await cluster.startOperator(['--namespace', 'default'])
  kubectl(['apply', '-f', `${root}/${SAMPLES}`])
  const expected = renderSamples()
  const live = await eventually(
    () => listManaged().length === expected.length && listManaged(),
    'as many children as rendered',
  )
  assert.equal(live.map(title).sort(), expected.map(title).sort())
  for (const child of expected) {
    const there = unwrap(live.find((one) => title(one) === title(child)))
    assert.ok(
      matches(child, there),
      `${title(child)}\n${JSON.stringify(child, null, 1)}\n${JSON.stringify(there, null, 1)}`,
    )
  }
})

test('the samples’ objects say in their status what they are', async () => {
  await eventually(
    () => (cluster.read('mcpotel', 'shared').status?.referencingWorkloads ?? []).length >= 2,
    'referrers',
  )
  const table = kubectl(['get', 'vmcp,mcpserver,mcpreg,mcpg,mcpotel'])
  assert.match(table, 'virtualmcpserver.portico.dev/tools')
  assert.match(kubectl(['describe', 'vmcp', 'tools']), 'Observed Generation')
})

test.run()
