/**
 * The gateway in a process of its own, which tells its CPU time and memory. Usage: gateway-process.ts CONFIG [LOGINS];
 * LOGINS: `{issuer, provider, accessToken, subjects}`, users of an issuer who have logged in at a provider, each under
 * the name of its subject.
 */
import { readFile } from 'node:fs/promises'
import { storedUpstreamTokens, type UpstreamTokens } from '../../dataplane/credentials/index.ts'
import { serveGateway } from '../../dataplane/gateway/index.ts'
import { createLog } from '../../dataplane/server/log.ts'
import { createMemoryTokenStore } from '../../dataplane/upstream-tokens/index.ts'

async function tokensOf(file: string): Promise<UpstreamTokens> {
  const { issuer, provider, accessToken, subjects } = JSON.parse(await readFile(file, 'utf8'))
  const store = createMemoryTokenStore()
  for (const subject of subjects)
    await store.put({ login: subject, provider }, { owner: subject, subject, accessToken }, { ttlMs: 24 * 3_600_000 })
  return storedUpstreamTokens(store, { issuer })
}

const [, , configFile, loginsFile] = process.argv
const served = await serveGateway({
  configFile: configFile as string,
  ...(loginsFile !== undefined && { upstreamTokens: await tokensOf(loginsFile) }),
  listen: '127.0.0.1:0',
  adminListen: '127.0.0.1:0',
  log: createLog({ name: 'bench', level: 'warn' }),
})
process.on('message', () => {
  globalThis.gc?.()
  const { heapUsed: heap, external, rss } = process.memoryUsage()
  process.send?.({ cpu: process.cpuUsage(), rss, heap, external })
})
process.on('disconnect', () => process.exit())
process.send?.({ port: Number(new URL(served.url).port) })
