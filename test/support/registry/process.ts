/**
 * Runs a registry as a separate process that tests may kill. Prints its URLs as one line of JSON; SIGTERM ends it. An
 * optional last argument has more options as JSON.
 */
import { serveRegistry } from '../../../dataplane/registry/index.ts'
import { createLog } from '../../../dataplane/server/log.ts'

const [configFile = '', stateDirectory = '', more = '{}'] = process.argv.slice(2)
const { url, adminUrl, close } = await serveRegistry({
  configFile,
  stateDirectory,
  listen: '127.0.0.1:0',
  adminListen: '127.0.0.1:0',
  log: createLog({ name: 'registry', level: 'error' }),
  ...JSON.parse(more),
})
process.once('SIGTERM', () => {
  close().catch((error: Error) => {
    console.error(error)
    process.exitCode = 1
  })
})
console.log(JSON.stringify({ url, adminUrl }))
