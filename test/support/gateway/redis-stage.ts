import { join } from 'node:path'
import type { Test } from 'uvu'
import { eventually } from '../eventually.ts'
import { temporaryFolder } from '../folder.ts'
import { type RedisServer, startRedis } from '../network/redis-server.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from './gateway.ts'
import { GatewayReplica } from './replica.ts'

/** A Redis for all tests of a file, with replicas of gateways that have one backend, `b`. */
export class RedisStage {
  /** Functions that are called after the test, the last one first. */
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

  /** Returns the configuration of a new gateway. All replicas with the same configuration belong to one gateway. */
  config(more: Partial<TestConfig> = {}): TestConfig {
    return {
      name: `g${++this.#gateways}`,
      backends: [{ name: 'b', url: this.#backendUrl() }],
      sessionStorage: { redis: { addresses: [this.redis.address] } },
      ...more,
    }
  }

  /** Starts two replicas of a new gateway, and waits until both are ready and know the backend's tools. */
  async twoReplicas(more: Partial<TestConfig> = {}): Promise<[GatewayUnderTest, GatewayUnderTest]> {
    const config = this.config(more)
    const replicas: [GatewayUnderTest, GatewayUnderTest] = [await startGateway(config), await startGateway(config)]
    this.cleanups.push(() => Promise.all(replicas.map((replica) => replica.close())))
    await this.ready(replicas)
    return replicas
  }

  /** Waits until the replicas are ready and know the tools of their backends. */
  async ready(replicas: readonly GatewayUnderTest[]): Promise<void> {
    for (const replica of replicas) {
      await eventually('the replica is ready', async () => (await fetch(`${replica.adminUrl}/readyz`)).ok)
      await replica.listed()
    }
  }

  /** As `twoReplicas`, but the first replica is a separate process that a test may kill. */
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
