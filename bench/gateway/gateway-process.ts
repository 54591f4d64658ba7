/** The gateway in a process of its own, which tells its CPU time and memory. Usage: gateway-process.ts CONFIG */
import { serveGateway } from '../../dataplane/gateway/index.ts'
import { createLog } from '../../dataplane/server/log.ts'

const served = await serveGateway({
  configFile: process.argv[2] as string,
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
