/** Deletes the whole installation at once, while the operator runs and configs have its finalizer. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  admin,
  createNamespace,
  installOperator,
  kubectl,
  namesIn,
  until,
  untilReady,
} from '../support/operator/e2e-cluster.ts'

const NAMESPACE = 'samples'
const TEAM = 'tenant'

const ours = (kinds: string, namespace?: string) =>
  namesIn(namespace ?? 'default', kinds).filter((name) => name.includes('portico'))
const isHeld = (kind: string, name: string, namespace: string, finalizer: string) =>
  admin.read(kind, name, namespace).metadata.finalizers?.includes(finalizer) ?? false

/** Creates a gateway that refers to a config, and waits until the config and the operator's rights have finalizers. */
async function applySamples(namespace: string, rights: string, operatorNamespace: string): Promise<void> {
  for (const name of ['group', 'telemetry', 'everything', 'gateway'])
    kubectl(['apply', '--namespace', namespace, '--filename', `samples/quickstart/${name}.yaml`])
  await untilReady(namespace, 'VirtualMCPServer', 'tools')
  await until('the config and the rights have finalizers', namespace, () =>
    [
      isHeld('mcpotel', 'shared', namespace, 'portico.dev/in-use'),
      isHeld(rights, 'portico-operator', operatorNamespace, 'portico.dev/release-first'),
      isHeld('serviceaccount', 'portico-operator', operatorNamespace, 'portico.dev/release-first'),
    ].every(Boolean),
  )
}

test('one `kubectl delete` of everything leaves nothing behind, not even Terminating', async () => {
  const uninstall = await installOperator('cluster')
  createNamespace(NAMESPACE)
  await applySamples(NAMESPACE, 'clusterrolebinding', 'portico-system')
  // Fails if an object still exists after some minutes.
  uninstall('all')
  assert.equal(ours('crd,clusterroles,clusterrolebindings,namespaces'), [])
  assert.not(kubectl(['api-resources', '--output', 'name']).includes('portico.dev'))
})

test('deleting a namespaced installation leaves configs without finalizers', async () => {
  kubectl(['apply', '--server-side', '--kustomize', 'crds'])
  kubectl(['wait', '--for=condition=Established', '--timeout=240s', '--all', 'crd'])
  const uninstall = await installOperator('namespaced', TEAM)
  await applySamples(TEAM, 'rolebinding', TEAM)
  uninstall('all')
  assert.equal(ours('roles,rolebindings,serviceaccounts,deployments', TEAM), [])
  assert.not(isHeld('mcpotel', 'shared', TEAM, 'portico.dev/in-use'))
  kubectl(['delete', 'namespace', TEAM, '--timeout', '240s'])
  kubectl(['delete', '--kustomize', 'crds', '--timeout', '240s'])
})

test.run()
