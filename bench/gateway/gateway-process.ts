/**
 * The gateway in a process of its own, which tells its CPU time and memory. Usage: gateway-process.ts CONFIG [LOGINS
 * [EXPORTS]]; EXPORTS: milliseconds between two exports of telemetry; LOGINS, which may be empty: `{issuer, provider, accessToken, subjects}`, users of an issuer who have logged in at a provider, each under
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

const [, , configFile, loginsFile = '', exportMs] = process.argv
const served = await serveGateway({
  configFile: configFile as string,
  ...(loginsFile !== '' && { upstreamTokens: await tokensOf(loginsFile) }),
  ...(exportMs !== undefined && { exports: { metricsEveryMs: Number(exportMs), spansAfterMs: Number(exportMs) } }),
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
process.send?.({ port: Number(new URL(served.url).port), adminOrigin: served.adminUrl })
