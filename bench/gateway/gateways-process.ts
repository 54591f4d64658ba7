/**
 * Several gateways in one process, which tells its CPU time. Usage: gateways-process.ts CONFIG[,LOGINS] …; LOGINS: a file
 * as `readLogins` reads it.
 */
import { serveGateway } from '../../dataplane/gateway/index.ts'
import { createLog } from '../../dataplane/server/log.ts'
import { readLogins } from './logins.ts'

async function serve(configFile: string, logins: string | undefined): Promise<number> {
  const served = await serveGateway({
    configFile,
    ...(logins !== undefined && { upstreamTokens: await readLogins(logins) }),
    listen: '127.0.0.1:0',
    adminListen: '127.0.0.1:0',
    log: createLog({ name: 'bench', level: 'warn' }),
  })
  return Number(new URL(served.url).port)
}

const ports: number[] = []
for (const files of process.argv.slice(2)) {
  const [configFile = '', logins] = files.split(',')
  ports.push(await serve(configFile, logins))
}
process.on('message', () => process.send?.({ cpu: process.cpuUsage() }))
process.on('disconnect', () => process.exit())
process.send?.({ port: ports[0], ports })
