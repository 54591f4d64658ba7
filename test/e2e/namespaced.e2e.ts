/** The installation that needs no rights outside its own namespace. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { connect, readText } from '../support/gateway/clients.ts'
import {
  admin,
  apply,
  createNamespace,
  installOperator,
  kubectl,
  listPods,
  namesIn,
  untilReady,
} from '../support/operator/e2e-cluster.ts'

const NAMESPACE = 'team'
const OTHER = 'strangers'

let uninstall = () => {}

test('the operator manages its own namespace without any ClusterRole', async () => {
  kubectl(['apply', '--server-side', '--kustomize', 'crds'])
  uninstall = await installOperator('namespaced', NAMESPACE)
  const roles = admin.listMetadata('clusterroles,clusterrolebindings').map(({ name }) => name)
  assert.equal(
    roles.filter((name) => name.includes('portico')),
    [],
  )
  kubectl(['apply', '--namespace', NAMESPACE, '--filename', 'samples/quickstart/group.yaml'])
  kubectl(['apply', '--namespace', NAMESPACE, '--filename', 'samples/quickstart/telemetry.yaml'])
  kubectl(['apply', '--namespace', NAMESPACE, '--filename', 'samples/quickstart/everything.yaml'])
  const url = await untilReady(NAMESPACE, 'MCPServer', 'everything')
  const { client } = await connect(url, 'auto')
  try {
    assert.match(readText(await client.callTool({ name: 'echo', arguments: { message: 'hello' } })), /hello/)
  } finally {
    await client.close()
  }
})

test('the operator ignores objects of other namespaces', async () => {
  createNamespace(OTHER)
  apply(OTHER, { apiVersion: 'portico.dev/v1beta1', kind: 'MCPGroup', metadata: { name: 'theirs' }, spec: {} })
  apply(NAMESPACE, { apiVersion: 'portico.dev/v1beta1', kind: 'MCPGroup', metadata: { name: 'ours' }, spec: {} })
  await untilReady(NAMESPACE, 'MCPGroup', 'ours')
  const theirs = admin.read('mcpg', 'theirs', OTHER)
  // The CRD's default: the operator has not seen the object.
  assert.equal(theirs.status, { observedGeneration: 0 })
  assert.is(theirs.metadata.finalizers, undefined)
  assert.is(listPods(OTHER, 'MCPServer', 'everything').length, 0)
})

test('the operator’s children are deleted with their objects', () => {
  kubectl(['delete', 'mcpserver,mcpg,mcpotel', '--all', '--namespace', NAMESPACE, '--timeout', '240s'])
  kubectl(['delete', 'mcpg', '--all', '--namespace', OTHER, '--timeout', '240s'])
  uninstall()
  const left = namesIn(NAMESPACE, 'deployments,roles,rolebindings')
  assert.equal(
    left.filter((name) => name.startsWith('portico')),
    [],
  )
})

test.run()
