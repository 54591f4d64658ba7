import { join } from 'node:path'
import type { Test } from 'uvu'
import { eventually } from '../eventually.ts'
import { temporaryFolder } from '../folder.ts'
import { type RedisServer, startRedis } from '../network/redis-server.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from './gateway.ts'
import { GatewayReplica } from './replica.ts'

/** A Redis for all tests of a file, and on it the replicas of gateways with one backend, which is called `b`. */
export class RedisStage {
  /** Called after the test, the last one first. */
  readonly cleanups: (() => unknown)[] = []
  readonly #backendUrl: () => string
  #redis: RedisServer | undefined
  #gateways = 0

  constructor(test: Test, backendUrl: () => string) {
    this.#backendUrl = backendUrl
    test.before(async () => {
      this.#redis = await startRedis()
    })
    test.after.each(async () => {
      for (const cleanup of this.cleanups.splice(0).reverse()) await cleanup()
    })
    test.after(() => this.#redis?.stop())
  }

  get redis(): RedisServer {
    return this.#redis as RedisServer
  }

  /** The configuration of a gateway that there has not been yet: all replicas that are given it are of one gateway. */
  config(more: Partial<TestConfig> = {}): TestConfig {
    return {
      name: `g${++this.#gateways}`,
      backends: [{ name: 'b', url: this.#backendUrl() }],
      sessionStorage: { redis: { addresses: [this.redis.address] } },
      ...more,
    }
  }

  /** Two replicas of a gateway of their own, which both are ready and know the backend's tools. */
  async twoReplicas(more: Partial<TestConfig> = {}): Promise<[GatewayUnderTest, GatewayUnderTest]> {
    const config = this.config(more)
    const replicas: [GatewayUnderTest, GatewayUnderTest] = [await startGateway(config), await startGateway(config)]
    this.cleanups.push(() => Promise.all(replicas.map((replica) => replica.close())))
    for (const replica of replicas) {
      await eventually('it is ready', async () => (await fetch(`${replica.adminUrl}/readyz`)).ok)
      await eventually('its tools', async () => (await replica.status()).backends.every(({ tools }) => tools > 0))
    }
    return replicas
  }

  /** The same, of which the first is a process of its own: it may be killed. */
  async oneToKill(more: Partial<TestConfig> = {}): Promise<[GatewayReplica, GatewayUnderTest]> {
    const config = this.config(more)
    const standard = { namespace: 'default', role: 'gateway', incomingAuth: { type: 'anonymous' } }
    const folder = temporaryFolder({ 'gateway.yaml': JSON.stringify({ ...standard, ...config }) })
    this.cleanups.push(() => folder[Symbol.dispose]())
    const other = await startGateway(config)
    this.cleanups.push(() => other.close())
    const replica = await GatewayReplica.start(join(folder.path, 'gateway.yaml'))
    this.cleanups.push(() => replica.end())
    return [replica, other]
  }
}
