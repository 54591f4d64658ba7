import type { Redis } from 'ioredis'
import { eventually } from '../eventually.ts'
import { freePort } from './free-port.ts'
import { openRedis } from './open-clients.ts'
import { type RedisServer, startRedis } from './redis-server.ts'

export const MASTER_NAME = 'main'

/** A master with replicas, and Sentinels for the failover. */
export interface SentinelSet {
  readonly sentinels: readonly string[]
  readonly master: RedisServer
  readonly replicas: readonly RedisServer[]
  /** `127.0.0.1:PORT` of the Sentinels' current master. */
  masterAddress(): Promise<string>
  /** Ends the servers that still run. */
  close(): Promise<void>
}

export async function startSentinelSet(): Promise<SentinelSet> {
  const master = await startRedis()
  const replicas = await Promise.all(
    [1, 2].map(() => startRedis({ settings: [`replicaof 127.0.0.1 ${master.port}`, 'repl-diskless-sync-delay 0'] })),
  )
  await eventually('the replicas follow', async () => (await field(master, 'replication', 'connected_slaves')) === '2')
  for (const replica of replicas)
    await eventually(
      'a replica is whole',
      async () => (await field(replica, 'replication', 'master_link_status')) === 'up',
    )
  const sentinels = await Promise.all(
    [1, 2, 3].map(() =>
      startRedis({
        sentinel: true,
        settings: [
          `sentinel monitor ${MASTER_NAME} 127.0.0.1 ${master.port} 2`,
          `sentinel down-after-milliseconds ${MASTER_NAME} 3000`,
          `sentinel failover-timeout ${MASTER_NAME} 5000`,
        ],
      }),
    ),
  )
  const [first] = sentinels as [RedisServer]
  const areKnown = () =>
    withClient(first, async (redis) => {
      const about = (await redis.call('SENTINEL', 'MASTER', MASTER_NAME)) as string[]
      const readField = (name: string) => about[about.indexOf(name) + 1]
      return readField('num-slaves') === '2' && readField('num-other-sentinels') === '2'
    })
  await eventually('the Sentinels know all servers', areKnown)
  return {
    sentinels: sentinels.map(({ address }) => address),
    master,
    replicas,
    masterAddress: () =>
      withClient(first, async (redis) => {
        const [host, port] = (await redis.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', MASTER_NAME)) as string[]
        return `${host}:${port}`
      }),
    async close() {
      for (const server of [...sentinels, ...replicas, master]) await server.stop()
    },
  }
}

/** A cluster of three masters, each with a third of the slots. */
export async function startCluster(): Promise<{ readonly nodes: readonly RedisServer[]; close(): Promise<void> }> {
  // By default the cluster bus uses a port that is 10,000 higher, which may be taken or not exist.
  const buses = await Promise.all([freePort(), freePort(), freePort()])
  const nodes = await Promise.all(
    buses.map((bus) =>
      startRedis({ settings: ['cluster-enabled yes', 'cluster-announce-ip 127.0.0.1', `cluster-port ${bus}`] }),
    ),
  )
  const [first] = nodes as [RedisServer, ...RedisServer[]]
  for (const [index, node] of nodes.entries()) {
    const [from, to] = [Math.ceil((16384 * index) / 3), Math.ceil((16384 * (index + 1)) / 3) - 1]
    await withClient(node, (redis) => redis.call('CLUSTER', 'ADDSLOTSRANGE', from, to))
  }
  for (const [index, { port }] of nodes.entries())
    if (index > 0)
      await withClient(first, (redis) => redis.call('CLUSTER', 'MEET', '127.0.0.1', port, buses[index] as number))
  for (const node of nodes)
    await eventually('the cluster is up', () =>
      withClient(node, async (redis) =>
        /cluster_state:ok.*cluster_known_nodes:3/s.test(String(await redis.call('CLUSTER', 'INFO'))),
      ),
    )
  return {
    nodes,
    async close() {
      for (const node of nodes) await node.stop()
    },
  }
}

/** Returns a field of `INFO`. */
export const field = (server: RedisServer, section: string, name: string): Promise<string | undefined> =>
  withClient(server, async (redis) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(await redis.info(section))?.[1])

/** Sends a command to a server on a new connection. */
export async function withClient<T>(
  { port }: Pick<RedisServer, 'port'>,
  ask: (redis: Redis) => Promise<T>,
): Promise<T> {
  const redis = openRedis(port)
  try {
    return await ask(redis)
  } finally {
    redis.disconnect()
  }
}
