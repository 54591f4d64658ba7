import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Report } from '../../../operator/standalone/report.ts'
import { eventually } from '../../support/eventually.ts'
import { type TemporaryFolder, temporaryFolder } from '../../support/folder.ts'
import { connect } from '../../support/gateway/clients.ts'
import { listening, object, StandaloneRun, server } from '../../support/operator/standalone-run.ts'

const clockServer = join(import.meta.dirname, '..', '..', '..', 'samples/quickstart/clock-server.ts')

const inGroup = '  groupRef: {name: g}\n'
const clock = (name: string) => server(name, `exec node ${clockServer}`, inGroup)
/** A clock server that starts once the file `go` exists. */
const waitingClock = (name: string, folder: string) =>
  server(name, `until [ -e ${folder}/go ]; do sleep 0.02; done; exec node ${clockServer}`, inGroup)

const gateway = [
  object('MCPGroup', 'g', ''),
  object('VirtualMCPServer', 'all', 'spec: {groupRef: {name: g}, incomingAuth: {type: anonymous}}\n'),
].join('---\n')

async function serversListed({ endpoints }: Report): Promise<readonly string[]> {
  const { client } = await connect(endpoints.find(({ kind }) => kind === 'VirtualMCPServer')?.url ?? '', 'modern')
  const { tools } = await client.listTools()
  await client.close()
  return [...new Set(tools.map(({ name }) => name.split('_')[0] ?? ''))].sort()
}

/** Returns how many backends the gateway tried without success; polls until a report covers the gateway. */
async function failedBackends({ path }: TemporaryFolder): Promise<number> {
  try {
    const { ports } = JSON.parse(readFileSync(join(path, 'state/run.json'), 'utf8')) as { ports: object }
    const [, port] = Object.entries(ports).find(([name]) => /VirtualMCPServer.* admin$/.test(name)) ?? []
    const answer = await fetch(`http://127.0.0.1:${port}/status`)
    const { backends } = (await answer.json()) as { backends: { lastError: object | null }[] }
    return backends.filter(({ lastError }) => lastError !== null).length
  } catch {
    return 0
  }
}

test('a gateway is ready once it has the tools of every running server', async () => {
  using folder = temporaryFolder({ 'manifests/gateway.yaml': gateway })
  const late = ['one', 'two', 'three'].map((name) => waitingClock(name, folder.path))
  folder.write(
    'manifests/servers.yaml',
    [...late, server('dumb', `exec node -e "${listening}"`, inGroup)].join('---\n'),
  )
  await using run = new StandaloneRun(folder)
  await eventually('the gateway’s early request', async () => (await failedBackends(folder)) >= 3)
  assert.is(run.now?.ready ?? false, false)
  folder.write('go', '')
  const listed = serversListed(await run.until('it is ready', ({ ready }) => ready))
  assert.equal(await listed, ['one', 'three', 'two'])
})

test('a new server is reported once the gateway has its tools', async () => {
  using folder = temporaryFolder({ 'manifests/gateway.yaml': gateway, 'manifests/a.yaml': clock('one') })
  await using run = new StandaloneRun(folder)
  assert.equal(await serversListed(await run.until('it is ready', ({ ready }) => ready)), ['one'])
  folder.write('manifests/b.yaml', waitingClock('late', folder.path))
  await eventually('the gateway’s early request', async () => (await failedBackends(folder)) >= 1)
  folder.write('go', '')
  const report = await run.until('it is reported', ({ ready, endpoints }) => ready && endpoints.length === 3)
  assert.equal(await serversListed(report), ['late', 'one'])
})

test.run()
