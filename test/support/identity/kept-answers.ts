import { openRedis } from '../network/open-clients.ts'
import type { RedisServer } from '../network/redis-server.ts'

/** Removes from Redis the answers that it keeps for repeated refreshes, as if ten seconds had passed. */
export async function dropAnswers({ port }: Pick<RedisServer, 'port'>): Promise<void> {
  const commands = openRedis(port)
  for (const kind of ['rotated', 'rotating'])
    for (const key of await commands.keys(`*:as:${kind}:*`)) await commands.del(key)
  commands.disconnect()
}
