/**
 * Runs the gateway from its sources and reports CPU time and memory: for settings that `portico serve` does not have,
 * and for tests that watch its heap. Usage: gateway-process.ts CONFIG [LOGINS: a file for `readLogins`]
 */
import { serveGateway } from '../../dataplane/gateway/index.ts'
import { createLog } from '../../dataplane/server/log.ts'
import { readLogins } from './logins.ts'

const [, , configFile, loginsFile] = process.argv
const served = await serveGateway({
  configFile: configFile as string,
  ...(loginsFile !== undefined && { upstreamTokens: await readLogins(loginsFile) }),
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
