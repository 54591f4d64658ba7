import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'

const repository = join(import.meta.dirname, '..', '..')

/** Returns code that writes every module loaded by the process and its threads to a file. */
const traceLoads = (file: string) => `
import { registerHooks } from 'node:module'
import { appendFileSync } from 'node:fs'
const file = ${JSON.stringify(file)}
registerHooks({ load(url, context, next) { appendFileSync(file, url + '\\n'); return next(url, context) } })
`

/** Returns the modules that a command has loaded by the time its output satisfies the condition. */
async function listModules(
  args: readonly string[],
  until: (output: string) => boolean,
  env: Readonly<Record<string, string>> = {},
): Promise<string[]> {
  using folder = temporaryFolder({ loaded: '' })
  const loaded = join(folder.path, 'loaded')
  const hook = `data:text/javascript,${encodeURIComponent(traceLoads(loaded))}`
  const child = spawn(process.execPath, ['--import', hook, 'cli/main.ts', ...args], {
    cwd: repository,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  let isOver = false
  child.once('close', () => {
    isOver = true
  })
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk
    })
  }
  try {
    await eventually(`portico ${args.join(' ')} is up`, () => until(output) || isOver)
    assert.ok(until(output), `portico ${args.join(' ')} says:\n${output}`)
  } finally {
    child.kill('SIGTERM')
  }
  return readFileSync(loaded, 'utf8')
    .trim()
    .split('\n')
    .map((url) => url.replace(`file://${repository}/`, ''))
}

const gatewayConfig = 'name: g\nnamespace: default\nrole: gateway\nincomingAuth: {type: anonymous}\nbackends: []\n'
const registryConfig = `sources: [{name: s, file: {path: r.json}}]
registries: [{name: r, sources: [s]}]
auth: {mode: anonymous}
`

const isForeign = (module: string) =>
  /^operator\/|^crds\/(?!settings\/|define)|client-node|dot-i|cel-js|opentelemetry|telemetry\/sdk/.test(module) ||
  module.includes('/k8s-')

test('a gateway loads nothing of the operator, of the CRDs, of the Kubernetes client or of the registry', async () => {
  using folder = temporaryFolder({ 'gateway.yaml': gatewayConfig })
  const config = join(folder.path, 'gateway.yaml')
  const args = ['serve', 'gateway', '--config', config, '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0']
  const modules = await listModules(args, (output) => output.includes('"msg":"the gateway serves"'))
  assert.ok(modules.includes('dataplane/gateway/index.ts'))
  assert.equal(modules.filter(isForeign), [])
  assert.equal(
    modules.filter((module) => /dataplane\/(registry\/|storage\/sql)|kysely|node:sqlite/.test(module)),
    [],
  )
})

/** Modules that the configuration of a plain proxy does not need. */
const UNUSED =
  /hono|ioredis|cedar|oidc-provider|openid-client|opentelemetry|cel-js|aws4|dataplane\/(authserver|telemetry\/sdk|registry)/

test('a proxy loads nothing that its configuration does not use', async () => {
  const config = gatewayConfig
    .replace('role: gateway', 'role: proxy')
    .replace('[]', '[{name: b, url: http://127.0.0.1:9/mcp}]')
  using folder = temporaryFolder({ 'gateway.yaml': config })
  const file = join(folder.path, 'gateway.yaml')
  const args = ['serve', 'gateway', '--config', file, '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0']
  // This message follows its first request to the backend.
  const modules = await listModules(args, (output) => output.includes('"msg":"no list of tools"'))
  assert.ok(modules.includes('dataplane/gateway/index.ts'))
  assert.equal(
    modules.filter((module) => UNUSED.test(module)),
    [],
  )
})

test('a registry loads nothing of the operator, of the CRDs, of the Kubernetes client or of the gateway', async () => {
  const catalog = JSON.stringify({ data: { servers: [] } })
  using folder = temporaryFolder({ 'registry.yaml': registryConfig, 'r.json': catalog })
  const config = join(folder.path, 'registry.yaml')
  const args = ['serve', 'registry', '--config', config, '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0']
  const env = { PORTICO_STATE_DIR: join(folder.path, 'state') }
  const modules = await listModules(args, (output) => output.includes('"msg":"the registry is served"'), env)
  assert.ok(modules.includes('dataplane/registry/index.ts'))
  assert.equal(modules.filter(isForeign), [])
  assert.equal(
    modules.filter((module) => /dataplane\/gateway\//.test(module)),
    [],
  )
})

test('the overview loads no command', async () => {
  const modules = await listModules(['--help'], (output) => output.includes('Exit codes'))
  assert.ok(modules.includes('cli/main.ts'))
  assert.equal(
    modules.filter((module) => /^(operator|dataplane)\/|node_modules/.test(module)),
    [],
  )
})

test.run()
