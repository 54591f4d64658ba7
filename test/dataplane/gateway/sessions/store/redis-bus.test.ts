import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createRedisBus } from '../../../../../dataplane/gateway/sessions/store/bus.ts'
import { connectRedis } from '../../../../../dataplane/storage/redis.ts'
import { eventually } from '../../../../support/eventually.ts'
import { recordLog } from '../../../../support/kept-log.ts'
import { startCutProxy } from '../../../../support/network/cut-proxy.ts'
import { startRedis } from '../../../../support/network/redis-server.ts'

test('if Redis falls silent while a replica reconnects, no session ends and the replica recovers', async () => {
  const redis = await startRedis()
  const proxy = await startCutProxy({ host: '127.0.0.1', port: redis.port })
  const { log } = recordLog()
  const connectBy = (address: string) =>
    connectRedis({ mode: 'standalone', addresses: [address], commandTimeoutMs: 200 }, log)
  const busBy = (address: string) => {
    const [client, subscriber] = [connectBy(address), connectBy(address)]
    return { client, subscriber, bus: createRedisBus({ client, subscriber, prefix: 'p:', log }) }
  }
  const [one, two] = [busBy(redis.address), busBy(`127.0.0.1:${proxy.port}`)]
  const rejected: unknown[] = []
  const note = (error: unknown) => void rejected.push(error)
  process.on('unhandledRejection', note)
  try {
    const ended: string[] = []
    two.bus.on('ended', ({ session }) => void ended.push(session))
    const waitUntilReceived = (session: string) =>
      eventually('the message to arrive', async () => {
        await one.bus.send({ kind: 'ended', session })
        return ended.includes(session)
      })
    await waitUntilReceived('before')
    let isFrozen = false
    two.subscriber.once('ready', () => {
      isFrozen = true
      proxy.freeze()
    })
    proxy.cut()
    await eventually('it comes back and freezes', () => isFrozen)
    const until = performance.now() + 500
    await eventually('the time of a command', () => performance.now() > until)
    proxy.thaw()
    await waitUntilReceived('after')
    assert.equal(rejected, [])
  } finally {
    process.off('unhandledRejection', note)
    for (const { bus, client } of [one, two]) {
      bus.close()
      client.disconnect()
    }
    await proxy.close()
    await redis.stop()
  }
})

test.run()
