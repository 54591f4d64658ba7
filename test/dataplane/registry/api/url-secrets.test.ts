/**
 * Checks that keys in any URL of a registry's configuration are shown nowhere; only callers with its role see them, in
 * `GET /v1/sources`.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { registryFolder, runRegistry } from '../../../support/registry/registry.ts'

const SECRET = 's3cr3t-in-a-url'
const DEAD = '127.0.0.1:9'

test('log, status and answers contain no key of a URL', async () => {
  const folder = await registryFolder()
  // The configuration refuses user names, passwords and fragments.
  const deadUrl = (path: string) => `http://${DEAD}/${path}?key=${SECRET}`
  const refused = `http://user:${SECRET}@${DEAD}/?key=${SECRET}#${SECRET}`
  const syncPolicy = { interval: '1h' }
  const sources = [
    { name: 'api', api: { endpoint: deadUrl('api') }, syncPolicy },
    { name: 'url', file: { url: deadUrl('url') }, syncPolicy },
    { name: 'git', git: { repository: deadUrl('git'), path: 'registry.json' }, syncPolicy },
  ]
  const provider = {
    name: 'idp',
    issuerUrl: `http://${DEAD}`,
    audience: 'us',
    jwksUrl: `http://${DEAD}/keys?key=${SECRET}`,
    introspectionUrl: `http://${DEAD}/ask`,
    clientId: 'id',
    clientSecretFile: '../secret',
  }
  await folder.write('secret', SECRET)
  await folder.configure({
    sources,
    registries: [{ name: 'main', sources: sources.map(({ name }) => name) }],
    auth: { mode: 'oauth', oauth: { providers: [provider] }, publicPaths: ['/registry/main'] },
  })
  const registry = await runRegistry(folder)
  try {
    await eventually('failures', async () => {
      const { sources } = await registry.status()
      return sources.length === 3 && sources.every(({ error }) => error !== null)
    })
    const jwt = `${btoa('{"alg":"RS256"}')}.${btoa(`{"iss":"http://${DEAD}"}`)}.x`.replaceAll('=', '')
    const visible = [JSON.stringify(await registry.status())]
    for (const token of [undefined, 'opaque', jwt])
      for (const path of ['/registry/main/v0.1/servers', '/v1/me', '/v1/sources', '/', '/none'])
        visible.push(
          await (
            await fetch(registry.url + path, { headers: token ? { authorization: `Bearer ${token}` } : {} })
          ).text(),
        )
    await folder.configure({ sources: [{ name: 'api', api: { endpoint: refused } }], registries: [] })
    await eventually('a refusal', async () => (await registry.status()).refused.length > 0)
    visible.push(JSON.stringify(await registry.status()), registry.log.text())
    for (const text of visible) assert.not.match(text, SECRET)
    assert.match(registry.log.text(), DEAD)
  } finally {
    await registry.close()
  }
})

test.run()
