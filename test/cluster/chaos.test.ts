import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { startCutProxy } from '../support/network/cut-proxy.ts'
import { chaos } from './support/chaos.ts'
import { startControlPlane } from './support/control-plane.ts'
import { installOperator, operatorKubeconfig, startOperator } from './support/operator-process.ts'

/** One minute in every test run; `make chaos` takes two or more. */
const SECONDS = Number(process.env['CHAOS_SECONDS'] ?? 60)

test('connections cut at random under changes: everything converges', async () => {
  const plane = await startControlPlane()
  const relay = await startCutProxy({ host: '127.0.0.1', port: Number(new URL(plane.server).port) })
  try {
    await installOperator(plane)
    const operator = await startOperator(operatorKubeconfig(plane, 'relayed', `https://127.0.0.1:${relay.port}`))
    try {
      await operator.ready()
      const { changes, disturbances } = await chaos(plane, relay, SECONDS)
      assert.not(operator.exited, operator.log())
      assert.ok(
        changes > SECONDS / 2 && disturbances > SECONDS / 10,
        `${changes} changes, ${disturbances} disturbances`,
      )
      console.log(`${SECONDS} s: ${changes} changes, ${disturbances} disturbances, converged`)
    } catch (error) {
      console.error(`the operator's last lines:\n${operator.log().slice(-20_000)}`)
      throw error
    } finally {
      await operator.stop()
    }
  } finally {
    await relay.close()
    await plane.stop()
  }
})

test.run()
