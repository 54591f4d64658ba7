import { Agent, get } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { serveRegistry } from '../../../../dataplane/registry/index.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { buildConfig, registryFile, registryFolder, server } from '../../../support/registry/registry.ts'

test('a stopping registry is not ready, still serves, and warns clients before it closes their connections', async () => {
  const folder = await registryFolder()
  await folder.write('a.json', registryFile([server('io.example/a')]))
  await folder.configure(buildConfig({ a: 'a.json' }))
  const { log } = recordLog()
  const listeners = { listen: '127.0.0.1:0', adminListen: '127.0.0.1:0' }
  const { configFile, stateDirectory } = folder
  const { url, adminUrl, close } = await serveRegistry({ ...listeners, configFile, stateDirectory, log })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const readConnection = (kept = agent) =>
    new Promise<string | undefined>((resolve, reject) => {
      get(`${url}/registry/main/v0.1/servers`, { agent: kept }, (response) => {
        response.resume().once('end', () => resolve(response.headers.connection))
      }).on('error', reject)
    })
  assert.is(await readConnection(), 'keep-alive')
  const ended = close({ noticeMs: 300, idleMs: 30_000, graceMs: 60_000 })
  assert.is((await fetch(`${adminUrl}/readyz`)).status, 503)
  assert.is(await readConnection(new Agent({ keepAlive: true })), 'close')
  await delay(400)
  assert.is(await readConnection(), 'close')
  await ended
  agent.destroy()
  await folder.remove()
})

test.run()
