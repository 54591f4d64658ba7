/**
 * Tests docs/first-hour.md without a cluster: what its manifest is rendered to, what its verification prints for a
 * gateway with that configuration, and that its commands exist. `helm install` and `helm uninstall` run in
 * test/cluster/chart.test.ts, tokens of ServiceAccounts in test/cluster/api-server/cluster-issuer.ts.
 */
import { execFile, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse, parseAllDocuments } from 'yaml'
import { kinds } from '../../crds/index.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startGateway, type TestConfig } from '../support/gateway/gateway.ts'
import { startIdentityProvider } from '../support/network/identity-provider.ts'
import { condition, configText, plansOfText } from '../support/operator/plans.ts'
import { startEverything } from '../support/servers/everything.ts'

const root = join(import.meta.dirname, '../..')
const docs = readFileSync(join(root, 'docs/first-hour.md'), 'utf8')
const blocks = (language: string) =>
  [...docs.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map((match) => match[1] as string)
const [manifest = ''] = blocks('yaml')
const commands = blocks('sh').flatMap((block) => block.replaceAll('\\\n', ' ').trim().split('\n'))
const command = (start: string) => commands.find((line) => line.startsWith(start)) ?? ''
const env = {
  ...process.env,
  PATH: [dirname(process.execPath), join(root, 'node_modules/.bin'), process.env['PATH']].join(delimiter),
}
const inNamespace = manifest.replaceAll('metadata: {', 'metadata: {namespace: hour, ')

test('the manifest is valid and creates the objects that the commands name', () => {
  const plans = plansOfText(inNamespace)
  for (const name of ['MCPServer/everything', 'VirtualMCPServer/tools']) {
    assert.is(condition(plans.get(name), 'Valid'), 'True ConfigValid')
    assert.is(condition(plans.get(name), 'ReferencesResolved'), 'True AllFound')
  }
  const created = [...plans.values()].flatMap(({ children }) => (children === 'hold' ? [] : (children ?? [])))
  const [, service, port] = /service\/(\S+) \d+:(\d+)/.exec(command('kubectl port-forward')) ?? []
  const found = created.find(({ kind, metadata }) => kind === 'Service' && metadata.name === service)
  const { ports = [] } = (found?.['spec'] ?? {}) as { ports?: readonly { port: number }[] }
  assert.ok(ports.some((each) => each.port === Number(port)))
  const names = parseAllDocuments(manifest).map((document) => {
    const { kind, metadata } = document.toJS() as { kind: keyof typeof kinds; metadata: { name: string } }
    return [kinds[kind].shortNames, metadata.name] as const
  })
  const waited = command('kubectl wait').matchAll(/ ([a-z]+)\/([a-z]+)/g)
  for (const [, kind = '', name = ''] of waited)
    assert.ok(names.some(([short, each]) => short.includes(kind) && each === name) || kind === 'mcpserver', kind)
})

test('a client is refused without a token, and calls a tool with one', async () => {
  using folder = temporaryFolder()
  const token = join(folder.path, 'token')
  const [provider, server] = await Promise.all([startIdentityProvider(), startEverything()])
  const config = parse(configText(plansOfText(inNamespace).get('VirtualMCPServer/tools'))) as TestConfig
  const { audience, cluster } = (config.incomingAuth as { oidc: { audience: string; cluster?: object } }).oidc
  assert.ok(cluster, 'tokens are checked by the keys of the cluster')
  assert.match(command('kubectl create token'), `--audience=${audience} `)
  // The provider stands in for the API server, which issues the tokens of ServiceAccounts.
  const gateway = await startGateway({
    ...config,
    incomingAuth: { type: 'oidc', oidc: { issuer: provider.issuer, audience, allowPrivateIP: true } },
    backends: config.backends.map((backend) => ({ ...backend, url: server.url, allowPrivateIP: true })),
  })
  const run = async (line: string) => {
    const here = line.replace('http://127.0.0.1:4483', gateway.base).replace('cat token', `cat ${token}`)
    return (await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', here], { cwd: root, env })).stdout
  }
  try {
    writeFileSync(token, await provider.mint({ aud: audience }))
    assert.is((await run(command('curl'))).trim(), '401')
    assert.match(await run(command('npx mcp-inspector')), 'Echo: hello')
  } finally {
    await Promise.all([gateway.close(), server.close()])
    await provider.close()
  }
})

test('each shown command exists with the shown options', () => {
  for (const line of commands.filter((each) => each.startsWith('bin/'))) {
    const [program = '', ...args] = line.split(/\s+/)
    assert.ok(existsSync(join(root, program)), line)
    // A command that it can't parse exits with 2, before it looks for the cluster or the file.
    const { status, stderr } = spawnSync(join(root, program), args, {
      env: { ...env, KUBECONFIG: '/nonexistent' },
      encoding: 'utf8',
    })
    assert.is(status, 1, `${line}: ${stderr}`)
  }
  const installing = readFileSync(join(root, 'docs/install.md'), 'utf8')
  assert.match(installing, command('helm install').replace(' --wait', ''))
})

test.run()
