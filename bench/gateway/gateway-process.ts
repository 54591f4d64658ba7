/**
 * The gateway in a process of its own, which tells its CPU time and memory. Usage: gateway-process.ts CONFIG [LOGINS
 * [EXPORTS]]; LOGINS: a file as `readLogins` reads it, or empty; EXPORTS: milliseconds between two exports of telemetry.
 */
import { serveGateway } from '../../dataplane/gateway/index.ts'
import { createLog } from '../../dataplane/server/log.ts'
import { readLogins } from './logins.ts'

const [, , configFile, loginsFile = '', exportMs] = process.argv
const served = await serveGateway({
  configFile: configFile as string,
  ...(loginsFile !== '' && { upstreamTokens: await readLogins(loginsFile) }),
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
