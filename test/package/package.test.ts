import { execFileSync, spawn } from 'node:child_process'
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { imageArchive } from '../../build/image/archive.ts'
import { porticoImage } from '../../build/image/portico.ts'
import { freePort } from '../support/network/free-port.ts'

const root = new URL('../..', import.meta.url).pathname
/** Puts the pinned Node first, as on a machine whose Node is new enough. */
const env = { ...process.env, PATH: [dirname(process.execPath), process.env['PATH']].join(delimiter) }

const CATALOG = {
  version: '1.0.0',
  meta: { last_updated: '2026-01-01T00:00:00Z' },
  data: { servers: [{ name: 'com.example/tools', description: 'Tools.', version: '1.2.0' }] },
}

const registryOn = (port: number) => ({
  apiVersion: 'portico.dev/v1beta1',
  kind: 'MCPRegistry',
  metadata: { name: 'catalog', annotations: { 'portico.dev/local-port': String(port) } },
  spec: {
    sources: [{ name: 'own', file: { configMapRef: { name: 'own', key: 'registry.json' } } }],
    registries: [{ name: 'public', sources: ['own'] }],
    auth: { mode: 'anonymous' },
  },
})

let elsewhere: string

test.before(() => {
  elsewhere = mkdtempSync(join(tmpdir(), 'portico-installed-'))
  const output = execFileSync('npm', ['pack', '--pack-destination', elsewhere, '--json', '--loglevel=error'], {
    cwd: root,
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [packed] = JSON.parse(output.slice(output.indexOf('[\n'))) as { filename: string; files: { path: string }[] }[]
  const paths = packed?.files.map(({ path }) => path) ?? []
  assert.ok(paths.includes('dist/cedar_wasm_bg.wasm'), 'the policy engine')
  assert.ok(paths.includes('dist/portico.js') && paths.includes('bin/portico'), paths.join('\n'))
  assert.ok(paths.includes('dist/sbom.cdx.json'), 'the package’s files')
  const { components } = JSON.parse(readFileSync(join(root, 'dist/sbom.cdx.json'), 'utf8'))
  const names = components.map(({ name }: { name: string }) => name)
  for (const name of ['hono', 'oidc-provider', '@cedar-policy/cedar-wasm', '@marcbachmann/cel-js'])
    assert.ok(names.includes(name), name)
  assert.not(names.includes('esbuild') || names.includes('uvu'), 'nothing of development')
  assert.not(
    paths.some((path) => path.startsWith('test/') || path.startsWith('operator/')),
    'sources stay at home',
  )
  writeFileSync(join(elsewhere, 'package.json'), '{"private": true}')
  execFileSync(
    'npm',
    ['install', '--no-audit', '--no-fund', '--loglevel=error', join(elsewhere, packed?.filename as string)],
    { cwd: elsewhere, env, stdio: ['ignore', 'ignore', 'inherit'] },
  )
})

test.after(() => rmSync(elsewhere, { recursive: true, force: true }))

const portico = (...args: string[]) =>
  execFileSync(join(elsewhere, 'node_modules/.bin/portico'), args, { cwd: elsewhere, env, encoding: 'utf8' })

test('the package prints its version and lists its commands', () => {
  assert.match(portico('version'), /^portico \d/)
  assert.match(portico('--help'), 'render')
})

test('the package prints the CRDs', () => {
  assert.match(portico('crds'), 'mcptelemetryconfigs.portico.dev')
})

test('the package renders and serves manifests from its bundle, worker threads included', async () => {
  const folder = join(elsewhere, 'manifests')
  mkdirSync(folder)
  const data = { 'registry.json': JSON.stringify(CATALOG) }
  const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'own' }, data }
  writeFileSync(
    join(folder, 'all.json'),
    JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [configMap, registryOn(await freePort())] }),
  )
  assert.match(portico('render', folder), 'name: mcpreg-catalog')

  const child = spawn(
    join(elsewhere, 'node_modules/.bin/portico'),
    ['run', folder, '--output', 'json', '--state', join(elsewhere, 'state')],
    { cwd: elsewhere, env, stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const gone = new Promise((resolve) => child.once('exit', resolve))
  try {
    for await (const line of createInterface(child.stdout)) {
      const state = JSON.parse(line) as { ready: boolean; endpoints: { kind: string; url: string }[] }
      const registry = state.endpoints.find(({ kind }) => kind === 'MCPRegistry')
      if (!state.ready || !registry) continue
      const response = await fetch(`${registry.url}/registry/public/v0.1/servers`)
      const list = (await response.json()) as { servers: { server: { name: string } }[] }
      assert.equal(
        list.servers.map(({ server }) => server.name),
        ['com.example/tools'],
      )
      break
    }
  } finally {
    child.kill('SIGTERM')
    await gone
  }
})

test('the image, with git, is at most 90 MB compressed and lists its contents', async () => {
  // Measures the archive that `make image` writes without a container engine: the gzipped layers as a registry stores
  // them and a node fetches them, with little around them. An image that an engine builds from the Dockerfile is not
  // measured.
  const image = await porticoImage({ compress: true })
  const entries = image.layers.flat()
  const paths = entries.map(({ path }) => path)
  for (const path of [
    'usr/bin/git',
    'usr/local/bin/node',
    'app/dist/portico.js',
    'app/dist/cedar_wasm_bg.wasm',
    'app/dist/gateway.start.code',
    'app/dist/operator.start.code',
  ])
    assert.ok(paths.includes(path), path)
  assert.ok(paths.some((path) => path.endsWith('git-remote-https')))
  const bom = JSON.parse(String(entries.find(({ path }) => path === 'app/sbom.cdx.json')?.content))
  const names = bom.components.map(({ name }: { name: string }) => name)
  for (const name of ['git', 'node', 'oidc-provider']) assert.ok(names.includes(name), name)
  const libraries = paths.filter((path) => /\.so(\.\d+)*$/.test(path)).map((path) => path.replace(/^.*\//, ''))
  assert.ok(libraries.length > 10)
  for (const library of libraries) assert.ok(names.includes(library), library)
  const { length } = imageArchive(image)
  assert.ok(length <= 90_000_000, `${length} bytes`)
})

test('the operator’s bundle does without the generated classes of the Kubernetes client', async () => {
  const [api, health, metrics] = await Promise.all([freePort(), freePort(), freePort()])
  const kubeconfig = join(elsewhere, 'kubeconfig')
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server: `http://127.0.0.1:${api}`, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'u', user: {} }],
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'c',
  }
  writeFileSync(kubeconfig, JSON.stringify(config))
  const lists = new Set<string>()
  const server = createServer(({ url = '' }, response) => {
    lists.add(url.split('?')[0] as string)
    response.writeHead(503).end()
  }).listen(api, '127.0.0.1')
  const options = [
    `--kubeconfig=${kubeconfig}`,
    `--health-listen=127.0.0.1:${health}`,
    `--metrics-listen=127.0.0.1:${metrics}`,
  ]
  const child = spawn(join(elsewhere, 'node_modules/.bin/portico'), ['operator', ...options], {
    cwd: elsewhere,
    env,
    stdio: 'ignore',
  })
  const gone = new Promise<number | null>((resolve) => child.once('exit', resolve))
  try {
    const end = Date.now() + 240_000
    while (!lists.has('/apis/portico.dev/v1beta1/mcpservers') || !lists.has('/api/v1/configmaps')) {
      assert.ok(Date.now() < end && child.exitCode === null, `it asks the API server: ${[...lists].join(' ')}`)
      await delay(50)
    }
    const [entry] = globSync('dist/operator-*.js', { cwd: join(elsewhere, 'node_modules/portico') })
    const { size } = statSync(join(elsewhere, 'node_modules/portico', entry as string))
    assert.ok(size < 2_000_000, `${entry} has ${size} bytes`)
  } finally {
    child.kill('SIGTERM')
    await gone
    server.close()
  }
  assert.is(await gone, 0)
})

test.run()
