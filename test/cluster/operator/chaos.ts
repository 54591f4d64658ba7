import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { startCutProxy } from '../../support/network/cut-proxy.ts'
import { chaos } from '../support/chaos.ts'
import { newCluster } from '../support/cluster.ts'
import { operatorKubeconfig, startOperator } from '../support/operator-process.ts'

/** `make chaos` takes two minutes or more. */
const SECONDS = Number(process.env['CHAOS_SECONDS'] ?? 40)
/** The API server is down for part of the time. */
const LEAST = { seconds: SECONDS, leastChanges: SECONDS / 6 }

const cluster = newCluster()

test.before(async () => {
  await cluster.install()
  await cluster.stopOperator()
})

test.after(() => cluster.stop())

test('everything converges after connections are cut and operator, API server and etcd are killed during changes', async () => {
  const { plane } = cluster
  const relay = await startCutProxy({ host: '127.0.0.1', port: Number(new URL(plane.server).port) })
  const kubeconfig = operatorKubeconfig(plane, 'relayed', `https://127.0.0.1:${relay.port}`)
  let operator = await startOperator(kubeconfig)
  try {
    await operator.ready()
    const killOperator = async () => {
      assert.not(operator.exited, operator.log())
      await operator.stop('SIGKILL')
      operator = await startOperator(kubeconfig)
    }
    const { changes, disturbances } = await chaos({ plane, relay, killOperator }, LEAST)
    assert.not(operator.exited, operator.log())
    const counts = [...disturbances].map(([kind, count]) => `${kind} ${count}`).join(', ')
    console.log(`${SECONDS} s: ${changes} changes; ${counts}; converged`)
  } catch (error) {
    console.error(`the operator's last lines:\n${operator.log().slice(-20_000)}`)
    throw error
  } finally {
    await operator.stop()
    await relay.close()
  }
})

test.run()
