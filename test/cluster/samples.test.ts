import { execFileSync } from 'node:child_process'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseAllDocuments } from 'yaml'
import { matches } from '../../operator/runtime/children/matches.ts'
import { type ControlPlane, startControlPlane } from './support/control-plane.ts'
import {
  eventually,
  installOperator,
  type OperatorProcess,
  operatorKubeconfig,
  startOperator,
} from './support/operator-process.ts'

const root = new URL('../..', import.meta.url).pathname
const SAMPLES = 'samples/quickstart'

let plane: ControlPlane
let operator: OperatorProcess

test.before(async () => {
  plane = await startControlPlane()
  await installOperator(plane)
})
test.after(async () => {
  await operator?.stop()
  await plane?.stop()
})

const rendered = (): any[] => {
  const text = execFileSync('bin/portico', ['render', SAMPLES], {
    cwd: root,
    encoding: 'utf8',
  })
  return parseAllDocuments(text).map((document) => document.toJS())
}

const managed = (): any[] =>
  JSON.parse(
    plane.kubectl([
      'get',
      'deployments,statefulsets,services,configmaps,serviceaccounts,networkpolicies,roles,rolebindings,pvc',
      '-l',
      'app.kubernetes.io/managed-by=portico',
      '-o',
      'json',
    ]),
  ).items

const title = ({ kind, metadata }: any) => `${kind}/${metadata.name}`

test('with Role alone, in its own namespace: the namespaced variant has all the rights it needs', async () => {
  plane.kubectl(['delete', 'clusterrolebinding', 'portico-operator'])
  plane.kubectl(['apply', '-f', `${plane.directory}/deploy/namespaced/rbac.yaml`])
  operator = await startOperator(operatorKubeconfig(plane), ['--namespace', 'portico-system', '--leader-elect'])
  await operator.ready()
  plane.kubectl(['apply', '-n', 'portico-system', '-f', `${root}/${SAMPLES}`])
  const count = rendered().length
  await eventually(
    () =>
      JSON.parse(
        plane.kubectl([
          'get',
          'all,configmaps,networkpolicies',
          '-n',
          'portico-system',
          '-l',
          'app.kubernetes.io/managed-by=portico',
          '-o',
          'json',
        ]),
      ).items.length >=
      count - 2,
    'children are there',
    30_000,
  )
  assert.not.match(operator.log(), 'forbidden')
  await operator.stop()
})

test('`portico render` equals what the cluster gets, but for what the server and ownership add', async () => {
  plane.kubectl(['apply', '-f', `${plane.directory}/deploy/rbac.yaml`])
  operator = await startOperator(operatorKubeconfig(plane), ['--namespace', 'default'])
  await operator.ready()
  plane.kubectl(['apply', '-f', `${root}/${SAMPLES}`])
  const expected = rendered()
  const live = await eventually(
    () => managed().length === expected.length && managed(),
    'as many children as rendered',
    30_000,
  )
  assert.equal(live.map(title).sort(), expected.map(title).sort())
  for (const child of expected) {
    const there = live.find((one: any) => title(one) === title(child))
    assert.ok(
      matches(child, there),
      `${title(child)}\n${JSON.stringify(child, null, 1)}\n${JSON.stringify(there, null, 1)}`,
    )
  }
})

test('the samples’ objects say in their status what they are', async () => {
  await eventually(
    () =>
      plane.kubectl(['get', 'mcpotel', 'shared', '-o', 'jsonpath={.status.referencingWorkloads[*].kind}']).split(' ')
        .length >= 2,
    'referrers',
  )
  const table = plane.kubectl(['get', 'vmcp,mcpserver,mcpreg,mcpg,mcpotel'])
  assert.match(table, 'virtualmcpserver.portico.dev/tools')
  assert.match(plane.kubectl(['describe', 'vmcp', 'tools']), 'Observed Generation')
})

test.run()
