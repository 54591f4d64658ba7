/** Runs a sidecar from the bundle. Every server's pod has one, so it must load only what its configuration needs. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../support/eventually.ts'
import { type TemporaryFolder, temporaryFolder } from '../support/folder.ts'
import { connect, readText } from '../support/gateway/clients.ts'
import { freePort } from '../support/network/free-port.ts'
import { startKubelet } from '../support/operator/kubelet.ts'
import { writeBundle } from '../support/portico-program.ts'

const SERVER = fileURLToPath(new URL('../support/servers/stdio-server.ts', import.meta.url))
/** Writes the name of each loaded file to the error output. */
const TELLS = `import { registerHooks } from 'node:module'
registerHooks({ load(url, context, next) {
  if (url.startsWith('file:')) console.error('LOADED ' + url)
  return next(url, context)
} })`

let folder: TemporaryFolder

test.before(() => {
  folder = temporaryFolder()
  writeBundle(join(folder.path, 'dist'))
  writeFileSync(join(folder.path, 'tells.mjs'), TELLS)
})

test.after(() => folder[Symbol.dispose]())

/** Starts a proxy from the bundle and waits until it is ready. */
async function startProxy(config: string) {
  const port = await freePort()
  writeFileSync(join(folder.path, 'gateway.yaml'), config)
  const listeners = ['--listen', `127.0.0.1:${port}`, '--admin-listen', '127.0.0.1:0']
  const command = ['serve', 'gateway', '--config', join(folder.path, 'gateway.yaml'), ...listeners]
  const program = ['--import', join(folder.path, 'tells.mjs'), join(folder.path, 'dist/portico.js')]
  const child = spawn(process.execPath, [...program, ...command], { stdio: ['ignore', 'ignore', 'pipe'] })
  let isClosed = false
  const closed = once(child, 'close').finally(() => {
    isClosed = true
  })
  let output = ''
  child.stderr.on('data', (chunk) => {
    output += chunk
  })
  await eventually('it serves or has ended', () => isClosed || output.includes('the gateway serves')).catch((error) => {
    child.kill('SIGKILL')
    throw error
  })
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    output: () => output,
    exitCode: child.exitCode,
    /** Returns the source files of all chunks that it has loaded. */
    sources: () =>
      [...output.matchAll(/^LOADED (file:.*)$/gm)].flatMap(([, url = '']) =>
        url.endsWith('.js')
          ? (JSON.parse(readFileSync(`${fileURLToPath(url)}.map`, 'utf8')).sources as string[])
          : [url],
      ),
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await closed
    },
  }
}

const proxy = (backend: object, more: object = {}) =>
  JSON.stringify({
    ...{ name: 'p', namespace: 'default', role: 'proxy', incomingAuth: { type: 'anonymous' } },
    ...{ backends: [{ name: 'b', ...backend }], ...more },
  })

test('a proxy loads neither a schema validator nor anything else that it does not use', async () => {
  await using running = await startProxy(proxy({ url: 'http://127.0.0.1:9/mcp' }))
  assert.is(running.exitCode, null, running.output())
  const sources = running.sources()
  assert.ok(
    sources.some((path) => path.endsWith('undici/lib/dispatcher/pool.js')),
    'it sends',
  )
  const none =
    /node_modules\/(@?hono|ajv\/dist\/(?!runtime\/)|typebox|yaml|oidc-provider|ioredis|@opentelemetry|kysely)|undici\/lib\/(web\/(fetch\/index|websocket)|mock|cache)|\/operator\//
  assert.equal(
    sources.filter((path) => none.test(path)),
    [],
  )
})

test('an invalid configuration is refused with every finding and its line', async () => {
  const text =
    'name: p\nnamespace: default\nrole: other\nincomingAuth: { type: anonymous }\nbackends:\n  - name: b\n    extra: 1\n'
  await using refused = await startProxy(text)
  assert.is(refused.exitCode, 1)
  assert.match(refused.output(), /gateway\.yaml:3: \/role: must be one of "gateway", "proxy"/)
  assert.match(refused.output(), /gateway\.yaml:7: \/backends\/0\/extra: unknown field/)
})

test('the WebSocket client is loaded only to attach to a container', async () => {
  const kubelet = await startKubelet([process.execPath, SERVER])
  try {
    writeFileSync(join(folder.path, 'token'), kubelet.token)
    const attach = { server: kubelet.url, namespace: 'team', pod: 'time-mcp-0', container: 'mcp', tokenFile: 'token' }
    await using running = await startProxy(proxy({ transport: 'stdio', stdio: { attach } }))
    const { client } = await connect(running.url, 'modern')
    assert.is(readText(await client.callTool({ name: 'echo', arguments: { message: 'hi' } })), 'hi')
    await client.close()
    const isLoaded = () => running.sources().some((path) => path.endsWith('undici/lib/web/websocket/websocket.js'))
    await eventually('the module is loaded', isLoaded)
  } finally {
    await kubelet.close()
  }
})

test.run()
