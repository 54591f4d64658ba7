/** `make cluster`: a control plane with our CRDs, until it is interrupted. */
import { setUp } from '../../setup/index.ts'
import { listNeeds } from '../../setup/needs.ts'
import { type ControlPlane, startControlPlane } from './control-plane.ts'
import { installOperator } from './operator-process.ts'

try {
  await setUp(listNeeds(['test/cluster/support/serve.ts']))
} catch (error) {
  console.error((error as Error).message)
  process.exit(1)
}

const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort())

console.log('Starting etcd, kube-apiserver and kube-controller-manager')
const plane: ControlPlane = await startControlPlane({ controllers: 'all' })
try {
  await installOperator(plane)
  console.log(`
A Kubernetes control plane is up, with the CRDs and the operator's rights; it runs no pods.

  export KUBECONFIG=${plane.kubeconfig}
  kubectl get crds
  bin/portico operator     # in a third shell
  kubectl apply -f samples/quickstart

Ctrl-C stops it and removes its state.`)
  if (!stop.signal.aborted)
    await new Promise((resolve) => stop.signal.addEventListener('abort', resolve, { once: true }))
} finally {
  await plane.stop()
}
