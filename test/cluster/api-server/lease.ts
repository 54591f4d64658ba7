import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ApiServer } from '../../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../../operator/cluster/kubernetes/kube-config.ts'
import { LeaderElection, type LeaseOptions } from '../../../operator/runtime/loop/lease.ts'
import { startCutProxy } from '../../support/network/cut-proxy.ts'
import { newCluster } from '../support/cluster.ts'
import type { ControlPlane } from '../support/control-plane.ts'
import { eventually } from '../support/operator-process.ts'

const cluster = newCluster()
let plane: ControlPlane
let proxy: Awaited<ReturnType<typeof startCutProxy>>
const elections: LeaderElection[] = []

/** An API server whose next write of a lease can be delayed. */
class SlowApi extends ApiServer {
  due: (() => boolean) | undefined

  override async create<T>(...args: Parameters<ApiServer['create']>): Promise<T> {
    await this.#hold()
    return super.create<T>(...args)
  }

  override async replace<T>(...args: Parameters<ApiServer['replace']>): Promise<T> {
    await this.#hold()
    return super.replace<T>(...args)
  }

  async #hold(): Promise<void> {
    const { due } = this
    this.due = undefined
    if (due) await eventually(due, 'the write is due')
  }
}

/** Long durations, with which a slow machine does not lose the lease. */
const LONG = { duration: 60_000, renewDeadline: 50_000 }

function candidate(identity: string, kubeconfig: string, lease: string, times: Partial<LeaseOptions> = {}) {
  const transitions: string[] = []
  const leadingAtStart: boolean[] = []
  const api = new SlowApi(loadKubeConfig(kubeconfig), 'test')
  const election: LeaderElection = new LeaderElection({
    api,
    namespace: 'default',
    name: lease,
    identity,
    log: pino({ level: 'silent' }),
    duration: 2000,
    renewDeadline: 1200,
    retryPeriod: 200,
    ...times,
    onStarted: () => {
      transitions.push('started')
      leadingAtStart.push(election.leading)
    },
    onStopped: () => transitions.push('stopped'),
  })
  elections.push(election)
  election.start()
  return { election, transitions, leadingAtStart, api }
}

test.before(async () => {
  plane = await cluster.bare()
  proxy = await startCutProxy({ host: '127.0.0.1', port: Number(new URL(plane.server).port) })
})
test.after.each(async () => {
  proxy.thaw()
  for (const election of elections.splice(0)) await election.stop()
})
test.after(async () => {
  await proxy?.close()
  await cluster.stop()
})

test('the second candidate waits, and takes over at once when the lease is released', async () => {
  const first = candidate('first', plane.kubeconfig, 'given-back', LONG)
  await eventually(() => first.election.leading, 'the first leads')
  const second = candidate('second', plane.kubeconfig, 'given-back', LONG)
  await eventually(() => plane.read('lease', 'given-back').spec['holderIdentity'] === 'first', 'held')
  assert.not(second.election.leading)
  await first.election.stop()
  assert.equal(first.transitions, ['started', 'stopped'])
  await eventually(() => second.election.leading, 'the second takes over')
  assert.is(plane.read('lease', 'given-back').spec['leaseTransitions'], 1)
})

test('a leader that is cut off stops before another starts, and is a candidate again afterwards', async () => {
  const proxied = plane.kubeconfigFor('proxied', 'administrator', `https://127.0.0.1:${proxy.port}`)
  const first = candidate('first', proxied, 'cut-off')
  await eventually(() => first.election.leading, 'the first leads')
  const second = candidate('second', plane.kubeconfig, 'cut-off')
  let both = false
  const watching = setInterval(() => {
    both ||= first.election.leading && second.election.leading
  }, 5)
  proxy.refuse()
  await eventually(() => second.election.leading, 'the second takes over')
  clearInterval(watching)
  assert.not(both)
  proxy.thaw()
  await second.election.stop()
  await eventually(() => first.election.leading, 'the first leads again')
})

test('a late renewal loses the lease and acquires it again, and skipped work is done', async () => {
  const { election, transitions, api } = candidate('slow', plane.kubeconfig, 'slow')
  await eventually(() => election.leading, 'it leads')
  api.due = () => !election.leading
  // On a slow machine the renewals after it may be late as well.
  await eventually(() => transitions.length >= 3 && election.leading, 'it leads again')
  assert.equal(
    transitions,
    transitions.map((_, at) => (at % 2 === 0 ? 'started' : 'stopped')),
  )
})

test('a lease that is acquired after the renewal deadline does not start the leader', async () => {
  const { election, leadingAtStart, api } = candidate('late', plane.kubeconfig, 'late')
  const since = performance.now()
  api.due = () => performance.now() - since > 1500
  await eventually(() => election.leading, 'it leads')
  assert.not(leadingAtStart.includes(false))
})

test('one of many simultaneous candidates wins', async () => {
  const many = Array.from({ length: 6 }, (_, index) => candidate(`many-${index}`, plane.kubeconfig, 'many'))
  await eventually(() => many.some(({ election }) => election.leading), 'one of them leads')
  for (let look = 0; look < 20; look++) {
    assert.ok(many.filter(({ election }) => election.leading).length <= 1)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
})

test.run()
