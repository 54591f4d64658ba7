import { existsSync, globSync, readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Report } from '../../../operator/standalone/report.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { ownHost } from '../../support/gateway/own-host.ts'
import { listening, object, StandaloneRun, server } from '../../support/operator/standalone-run.ts'
import { startMcpServer } from '../../support/servers/dual-server.ts'
import { answer, OK_RESULT, type RawRequest, startRawServer, tool } from '../../support/servers/raw-server.ts'

const secret = (name: string, value: string) =>
  `apiVersion: v1\nkind: Secret\nmetadata:\n  name: ${name}\nstringData:\n  key: ${value}\n`

const fromSecret = '  secrets:\n    - name: token\n      key: key\n      targetEnvName: TOKEN\n'

test('a registry keeps published entries in the state folder, without a warning', async () => {
  const spec =
    'spec: {sources: [{name: own, managed: {}}], registries: [{name: all, sources: [own]}], auth: {mode: anonymous}}\n'
  using folder = temporaryFolder({ 'manifests/all.yaml': object('MCPRegistry', 'catalog', spec) })
  await using run = new StandaloneRun(folder)
  const { problems } = await run.until('it is ready', ({ ready }) => ready)
  assert.equal(problems, [])
})

test('a failing source of a registry is reported with its error, and so is its recovery', async () => {
  using folder = temporaryFolder({})
  const path = join(folder.path, 'late.json')
  folder.write(
    'manifests/all.yaml',
    object(
      'MCPRegistry',
      'catalog',
      `spec: {sources: [{name: late, file: {path: "${path}"}}], registries: [{name: all, sources: [late]}], auth: {mode: anonymous}}\n`,
    ),
  )
  await using run = new StandaloneRun(folder)
  const report = await run.until('it is reported', ({ ready, problems }) => ready && problems.length > 0)
  assert.equal(listProblems(report), ['MCPRegistry catalog SourcesFailed'])
  assert.is(report.problems[0]?.message, 'late: there is no such file (file_missing)')
  assert.is(report.problems[0]?.severity, 'warning')
  const good = { name: 'com.example/good', description: '', version: '1.0.0' }
  const odd = { ...good, name: 'no name' }
  folder.write('late.json', JSON.stringify({ data: { servers: [odd, good, { ...good, name: 'com.example/Good' }] } }))
  const { problems, ready } = await run.until('an entry is told', ({ problems }) =>
    problems.some(({ reason }) => reason === 'EntryInvalid'),
  )
  assert.ok(ready)
  assert.equal(
    problems.map(({ kind, name, severity, reason, message }) => ({ kind, name, severity, reason, message })),
    [
      {
        kind: 'MCPRegistry',
        name: 'catalog',
        severity: 'warning',
        reason: 'EntryInvalid',
        message:
          'entries that clients could not read are left out: late: /data/servers/0/name is left out: must be namespace/name of letters, digits and . _ -, 3 to 200 long',
      },
    ],
  )
  folder.write('late.json', '{"data": {"servers": []}}')
  await run.until('nothing is wrong any more', ({ ready, problems }) => ready && problems.length === 0)
})

test('a server on this machine is a remote server like any other, for an entry and for a proxy', async () => {
  const remote = await startMcpServer()
  using folder = temporaryFolder({
    'manifests/all.yaml': [
      object('MCPGroup', 'g', ''),
      object(
        'MCPServerEntry',
        'entry',
        `spec: {remoteUrl: "${remote.url}", transport: streamable-http, groupRef: {name: g}}\n`,
      ),
      object('MCPRemoteProxy', 'proxy', `spec: {remoteUrl: "${remote.url}", groupRef: {name: g}}\n`),
      object('VirtualMCPServer', 'all', 'spec: {groupRef: {name: g}, incomingAuth: {type: anonymous}}\n'),
    ].join('---\n'),
  })
  try {
    await using run = new StandaloneRun(folder)
    const { endpoints } = await run.until('all is ready', ({ ready }) => ready)
    const gateway = endpoints.find(({ kind }) => kind === 'VirtualMCPServer')
    await eventually('both serve', async () => {
      const status = (await (await fetch(`${gateway?.admin}/status`)).json()) as { backends: { tools: number }[] }
      return status.backends.length === 2 && status.backends.every(({ tools }) => tools > 0)
    })
  } finally {
    await remote.close()
  }
})

test('an entry that official clients could not read is reported for a proxy, too', async () => {
  const odd = tool('odd', '"annotations":{"readOnlyHint":"yes"}')
  const call = (request: RawRequest) => answer(request, OK_RESULT)
  const remote = await startRawServer({ era: 'modern', tools: [tool('good'), odd], call })
  const proxy = object('MCPRemoteProxy', 'proxy', `spec: {remoteUrl: "${remote.url}"}\n`)
  using folder = temporaryFolder({ 'manifests/all.yaml': proxy })
  try {
    await using run = new StandaloneRun(folder)
    const { problems, ready } = await run.until('it is reported', ({ problems }) => problems.length > 0)
    assert.ok(ready)
    assert.equal(
      problems.map(({ kind, name, reason, severity }) => [kind, name, reason, severity]),
      [['MCPRemoteProxy', 'proxy', 'EntryInvalid', 'warning']],
    )
    assert.match(problems[0]?.message ?? '', /"odd".*readOnlyHint/)
  } finally {
    await remote.close()
  }
})

test('clashing tool names are a problem while they last', async () => {
  const [one, two] = [await startMcpServer(), await startMcpServer()]
  const entry = (name: string, { url }: { url: string }) =>
    object('MCPServerEntry', name, `spec: {remoteUrl: "${url}", transport: streamable-http, groupRef: {name: g}}\n`)
  const gateway = (strategy: string) =>
    object(
      'VirtualMCPServer',
      'all',
      `spec:\n  groupRef: {name: g}\n  incomingAuth: {type: anonymous}\n  config: {aggregation: {conflictResolution: ${strategy}}}\n`,
    )
  using folder = temporaryFolder({
    'manifests/group.yaml': [object('MCPGroup', 'g', ''), entry('one', one), entry('two', two)].join('---\n'),
    'manifests/gateway.yaml': gateway('manual'),
  })
  try {
    await using run = new StandaloneRun(folder)
    const clashing = await run.until('the clash is told', ({ problems }) => problems.length > 0)
    assert.equal(
      clashing.problems.map(({ name, reason, severity }) => [name, reason, severity]),
      [['all', 'AggregationConflict', 'warning']],
    )
    assert.match(clashing.problems[0]?.message ?? '', 'is a tool of one and two')
    folder.write('manifests/gateway.yaml', gateway('prefix'))
    await run.until('it is over', ({ problems, ready }) => ready && problems.length === 0)
  } finally {
    await Promise.all([one.close(), two.close()])
  }
})

test('local-path sets the path of a server; otherwise its transport does', async () => {
  const moveTo = (path: string) => (text: string) =>
    text.replace('annotations:\n', `annotations:\n    portico.dev/local-path: ${path}\n`)
  const command = `exec node -e "${listening}"`
  using folder = temporaryFolder({
    'manifests/all.yaml': [
      moveTo('other')(server('a', command)),
      moveTo('/some/where?x=1')(server('b', command)),
      server('c', command),
      server('d', command).replace('transport: streamable-http', 'transport: sse'),
    ].join('---\n'),
  })
  await using run = new StandaloneRun(folder)
  const { endpoints } = await run.until('all serve', (report) => report.endpoints.length === 4)
  const paths = endpoints.map(async ({ admin }) => {
    const status = (await (await fetch(`${admin}/status`)).json()) as { backends: { url: string }[] }
    return new URL(status.backends[0]?.url ?? '').pathname
  })
  // URLs are reported without their query, but requests are sent with it.
  assert.equal(await Promise.all(paths), ['/other', '/some/where', '/mcp', '/sse'])
  const configs = globSync(join(folder.path, 'state', '**', 'gateway.yaml')).map((file) => readFileSync(file, 'utf8'))
  assert.is(configs.filter((text) => text.includes('/some/where?x=1')).length, 1)
})

test('a server whose proxy’s port is taken runs on until the port is free', async () => {
  const taken = createServer()
  await new Promise<void>((resolve) => taken.listen(0, ownHost, resolve))
  const { port } = taken.address() as AddressInfo
  const other = object('VirtualMCPServer', 'other', 'spec: {groupRef: {name: g}, incomingAuth: {type: anonymous}}\n')
  using folder = temporaryFolder({
    'manifests/all.yaml': [
      server('one', `exec node -e "${listening}"`, '  groupRef: {name: g}\n').replace(
        'annotations:\n',
        `annotations:\n    portico.dev/local-port: "${port}"\n`,
      ),
      object('MCPGroup', 'g', ''),
    ].join('---\n'),
  })
  await using run = new StandaloneRun(folder)
  try {
    const { problems } = await run.until('the port is told', (report) => report.problems.length > 0)
    assert.equal(
      problems.map(({ name, reason }) => `${name} ${reason}`),
      ['one PortTaken'],
    )
    folder.write('manifests/other.yaml', other)
    await run.until('another one serves', ({ endpoints }) => endpoints.some(({ name }) => name === 'other'))
  } finally {
    taken.close()
  }
  await run.until('it serves', ({ ready, problems }) => ready && problems.length === 0)
  assert.not.match(JSON.stringify(run.reports.map(({ changes }) => changes)), 'restarted')
})

const listProblems = ({ problems }: Report) => problems.map(({ kind, name, reason }) => `${kind} ${name} ${reason}`)

test('a renamed gateway takes over the port of the old one, without a problem', async () => {
  const gateway = (name: string) =>
    [
      object('MCPGroup', 'g', ''),
      object('VirtualMCPServer', name, 'spec: {groupRef: {name: g}, incomingAuth: {type: anonymous}}\n'),
    ].join('---\n')
  using folder = temporaryFolder({ 'manifests/all.yaml': gateway('before') })
  await using run = new StandaloneRun(folder)
  const [before] = (await run.until('it serves', ({ ready }) => ready)).endpoints
  folder.write('manifests/all.yaml', gateway('after'))
  const { endpoints } = await run.until(
    'the other serves',
    (report) => report.ready && report.endpoints[0]?.name === 'after',
  )
  assert.is(endpoints[0]?.url, before?.url)
  assert.equal(
    run.reports.flatMap(({ report }) => listProblems(report)).filter((problem) => problem.includes('PortTaken')),
    [],
  )
})

test('a server gets HOST, PORT and its Secrets; a changed Secret starts it again, and none is shown', async () => {
  const command = `echo "token $TOKEN on $HOST" ; exec node -e "${listening}"`
  using folder = temporaryFolder({
    'manifests/server.yaml': server('one', command, fromSecret),
    'manifests/secret.yaml': secret('token', 'first-secret'),
  })
  await using run = new StandaloneRun(folder)
  const { problems, endpoints } = await run.until('it is ready', ({ ready }) => ready)
  assert.equal(problems, [])
  assert.equal(
    endpoints.map(({ kind, name }) => `${kind} ${name}`),
    ['MCPServer one'],
  )
  const changes = await run.changesAfter(() => folder.write('manifests/secret.yaml', secret('token', 'second-secret')))
  assert.equal(changes, ['MCPServer default/one restarted'])
  await run.until('ready again', ({ ready }) => ready)
  assert.equal(
    run.lines.filter((line) => line.includes('token')),
    Array(2).fill('MCPServer default/one: token [redacted] on 127.0.0.1'),
  )
  assert.not.match(JSON.stringify([run.reports, run.lines]), /(first|second)-secret/)
})

const proxy = (remoteUrl: string) =>
  object(
    'MCPRemoteProxy',
    'remote',
    `spec:
  remoteUrl: ${remoteUrl}
  allowPrivateEndpoint: true
  headerForward:
    addHeadersFromSecret:
      - headerName: X-Key
        valueSecretRef: {name: token, key: key}
`,
  )

test('a mounted Secret is a file; a changed one is written again, and nothing restarts', async () => {
  const remote = await startMcpServer()
  await using _closing = { [Symbol.asyncDispose]: () => remote.close() }
  using folder = temporaryFolder({
    'manifests/a.yaml': proxy(remote.url),
    'manifests/s.yaml': secret('token', 'first-secret'),
  })
  const file = join(folder.path, 'state/mcpremoteproxy-default.remote/secrets/token/key')
  {
    await using run = new StandaloneRun(folder)
    await run.until('served', ({ endpoints }) => endpoints.length === 1)
    assert.is(readFileSync(file, 'utf8'), 'first-secret')
    await eventually('the server is called', () => remote.seen.length > 0)
    assert.is(remote.seen.at(-1)?.headers['x-key'], 'first-secret')
    const changes = await run.changesAfter(() => folder.write('manifests/s.yaml', secret('token', 'second-secret')))
    assert.equal(changes, ['MCPRemoteProxy default/remote reconfigured'])
    assert.is(readFileSync(file, 'utf8'), 'second-secret')
  }
  assert.is(existsSync(file), false, 'no secret stays on the disk')
})

test('a workload that can’t run here is a problem of its object, and the rest runs', async () => {
  using folder = temporaryFolder({
    'manifests/a.yaml': [
      object('MCPServer', 'image-only', 'spec:\n  image: someone/server\n  transport: streamable-http\n'),
      server('missing', 'true', fromSecret),
      server('broken', 'echo "no such option" >&2; exit 2'),
      server('good', `exec node -e "${listening}"`),
    ].join('---\n'),
  })
  await using run = new StandaloneRun(folder)
  const report = await run.until('all problems are told', ({ problems }) => problems.length === 3)
  assert.equal(listProblems(report), [
    'MCPServer broken Crashed',
    'MCPServer image-only NotRunnableHere',
    'MCPServer missing SecretNotFound',
  ])
  assert.match(report.problems[0]?.message ?? '', 'exited with code 2; it said: no such option')
  assert.match(report.problems[1]?.message ?? '', 'the image someone/server needs a cluster')
  assert.is(report.ready, false)
  await run.until('the good one serves', ({ endpoints }) => endpoints.some(({ name }) => name === 'good'))
  folder.write('manifests/a.yaml', server('good', `exec node -e "${listening}"`))
  await run.until('nothing is wrong any more', ({ ready, problems }) => ready && problems.length === 0)
  const left = join(folder.path, 'state/mcpserver-default.broken')
  await eventually('its files are gone', () => !existsSync(left))
})

test('a changed command restarts the server, a changed tool filter only reloads its proxy', async () => {
  const command = `exec node -e "${listening}"`
  using folder = temporaryFolder({ 'manifests/a.yaml': server('one', command) })
  await using run = new StandaloneRun(folder)
  await run.until('it is ready', ({ ready }) => ready)
  const other = await run.changesAfter(() => folder.write('manifests/a.yaml', server('one', `true; ${command}`)))
  assert.equal(other, ['MCPServer default/one restarted'])
  await run.until('ready again', ({ ready }) => ready)
  const filtered = await run.changesAfter(() =>
    folder.write(
      'manifests/a.yaml',
      `${server('one', `true; ${command}`, '  toolConfigRef:\n    name: few\n')}---\n${object('MCPToolConfig', 'few', 'spec:\n  toolsFilter: [a]\n')}`,
    ),
  )
  assert.equal(filtered, ['MCPServer default/one reconfigured'])
  assert.equal(listProblems(run.now as Report), [])
})

test('telemetry settings list their referrers after every edit', async () => {
  const telemetry = object('MCPTelemetryConfig', 'shared', 'spec: {}\n')
  const referring = server('one', `exec node -e "${listening}"`, '  telemetryConfigRef:\n    name: shared\n')
  using folder = temporaryFolder({ 'manifests/a.yaml': referring })
  await using run = new StandaloneRun(folder)
  const report = await run.until('the reference is missed', ({ problems }) => problems.length > 0)
  assert.equal(listProblems(report), ['MCPServer one ReferenceNotFound'])
  folder.write('manifests/b.yaml', telemetry)
  await run.until('it is served', ({ ready, problems }) => ready && problems.length === 0)
})

test.run()
