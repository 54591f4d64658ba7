/** A registry in a process of its own: tells its parent where it serves, and what it has used whenever it is asked. */
import { serveRegistry } from '../../dataplane/registry/index.ts'
import { createLog } from '../../dataplane/server/log.ts'

export interface Usage {
  /** Processor time of all threads, in milliseconds. */
  readonly cpuMs: number
  readonly residentBytes: number
  /** The most it ever was; on Linux what /proc calls VmHWM. */
  readonly peakBytes: number
}

const [configFile = '', stateDirectory = ''] = process.argv.slice(2)
const registry = await serveRegistry({
  configFile,
  stateDirectory,
  listen: '127.0.0.1:0',
  adminListen: '127.0.0.1:0',
  log: createLog({ name: 'registry', level: 'warn' }),
})
process.on('message', async (message) => {
  if (message === 'close') {
    await registry.close()
    process.disconnect()
    return
  }
  const { user, system } = process.cpuUsage()
  const { maxRSS } = process.resourceUsage()
  process.send?.({
    cpuMs: (user + system) / 1000,
    residentBytes: process.memoryUsage.rss(),
    peakBytes: maxRSS * 1024,
  } satisfies Usage)
})
process.send?.({ url: registry.url, adminUrl: registry.adminUrl })
