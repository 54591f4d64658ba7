import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { cpSync, readFileSync, renameSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { startBrowser } from '../support/browser.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { connect, connectV1, readText } from '../support/gateway/clients.ts'
import { freePort } from '../support/network/free-port.ts'
import { processesMarked, type Report, RunningPortico } from '../support/operator/running-portico.ts'

const repository = join(import.meta.dirname, '..', '..')
const mark = `portico-test-${randomUUID()}`
const env = { PORTICO_TEST_MARK: mark }

/** The gateway's page in README.md. `UPDATE_PICTURES=1` takes it again. */
const PICTURE = 'docs/pictures/gateway.png'
const MOST_PICTURE_BYTES = 100 * 1024

const occupied: Server[] = []
/** Occupies a port until the server is closed. */
async function holdPort(): Promise<{ server: Server; port: number }> {
  const server = createServer((_, response) => response.end('somebody else'))
  occupied.push(server)
  const port = await freePort()
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  return { server, port }
}
const release = (server: Server) => new Promise<unknown>((resolve) => server.close(resolve))

/** Copies the sample for editing, and gives it free ports. */
function copyOfSample(ports: { readonly gateway: number; readonly registry: number }) {
  const folder = temporaryFolder()
  const manifests = join(folder.path, 'manifests')
  cpSync(join(repository, 'samples/quickstart'), manifests, { recursive: true })
  symlinkSync(join(repository, 'node_modules'), join(folder.path, 'node_modules'))
  const edit = (file: string, change: (text: string) => string) => {
    const before = readFileSync(join(manifests, file), 'utf8')
    const after = change(before)
    assert.is.not(after, before, `${file} is edited`)
    // Renames into place, as editors do, so that a watcher never reads half a file.
    const replace = (text: string) => renameSync(folder.write(`${file}.part`, text), join(manifests, file))
    replace(after)
    return () => replace(before)
  }
  const onPort = (port: number) => (text: string) =>
    text.replace(/^(metadata:\n {2}name: \S+\n)/m, `$1  annotations:\n    portico.dev/local-port: "${port}"\n`)
  edit('gateway.yaml', onPort(ports.gateway))
  edit('registry.yaml', onPort(ports.registry))
  return { ...folder, manifests, edit, state: join(folder.path, 'state'), [Symbol.dispose]: folder[Symbol.dispose] }
}

const endpoint = (report: Report, kind: string) => {
  const found = report.endpoints.find((candidate) => candidate.kind === kind)
  assert.ok(found, `there is a ${kind}`)
  return found
}

const path = `${join(process.execPath, '..')}:${process.env['PATH']}`

/** Runs a program until it exits, while this process keeps serving its connections; throws if it fails. */
const program = (file: string, args: readonly string[]) =>
  promisify(execFile)(file, [...args], { cwd: repository, env: { ...process.env, PATH: path }, maxBuffer: 1 << 26 })

const waitUntilNoneLeft = () =>
  eventually('no process is left', () => processesMarked(mark).length === 0).catch((error: Error) => {
    throw new Error(`${error.message}\n${processesMarked(mark).join('\n')}`)
  })

const run = suite('portico run samples/quickstart')
let sample: ReturnType<typeof copyOfSample>
let portico: RunningPortico
let first: Report
let gateway: string

run.before(async () => {
  const ports = { gateway: await freePort(), registry: await freePort() }
  sample = copyOfSample(ports)
  portico = new RunningPortico([sample.manifests, '--state', sample.state], env)
  first = await portico.ready()
  gateway = endpoint(first, 'VirtualMCPServer').url
  assert.is(gateway, `http://127.0.0.1:${ports.gateway}/mcp`)
  assert.is(endpoint(first, 'MCPRegistry').url, `http://127.0.0.1:${ports.registry}`)
})

run.after(async () => {
  for (const server of occupied) server.close()
  await portico.stop()
  sample[Symbol.dispose]()
})

const toolNames = async (client: Awaited<ReturnType<typeof connect>>['client']) =>
  (await client.listTools()).tools.map(({ name }) => name)

run('every object is reported as ready, without problems', () => {
  assert.equal(Object.keys(first), ['ready', 'endpoints', 'problems', 'console'])
  assert.equal(first.problems, [])
  assert.equal(
    first.endpoints.map(({ kind, name }) => `${kind} ${name}`),
    ['VirtualMCPServer tools', 'MCPRegistry catalog', 'MCPServer clock', 'MCPServer everything', 'Console console'],
  )
  for (const one of first.endpoints) assert.equal(Object.keys(one), ['kind', 'namespace', 'name', 'url', 'admin'])
})

run('its console and the gateway’s page show that all is well, without an error in the browser', async () => {
  await using browser = await startBrowser()
  const page = await browser.newPage()
  const messages: string[] = []
  page.on('console', (message) => messages.push(message.text()))
  page.on('pageerror', (error) => messages.push(String(error)))
  await page.goto((first as unknown as { console: { open: string } }).console.open)
  await page.waitForFunction(`/✓ All \\d+ are well/.test(document.querySelector('main').innerText)`, {
    timeout: 60_000,
  })
  await page.setViewport({ width: 1000, height: 300 })
  await page.goto(new URL('/', gateway).href)
  const text = (await page.evaluate('document.body.innerText')) as string
  for (const part of [gateway, 'clock\thealthy\t3', 'everything\thealthy\t4', 'clock_convert_time', 'everything_echo'])
    assert.ok(text.includes(part), `${part} in ${text}`)
  if (process.env['UPDATE_PICTURES'] === '1') {
    const { host } = new URL(gateway)
    await page.evaluate(`document.body.innerHTML = document.body.innerHTML.replaceAll('${host}', '127.0.0.1:4483')`)
    await page.evaluate('for (const one of document.querySelectorAll("details")) one.open = false')
    const height = (await page.evaluate('document.body.scrollHeight')) as number
    await page.setViewport({ width: 1000, height })
    await page.screenshot({ path: join(repository, PICTURE) as `${string}.png` })
  }
  assert.match(readFileSync(join(repository, 'README.md'), 'utf8'), `](${PICTURE})`)
  assert.ok(statSync(join(repository, PICTURE)).size < MOST_PICTURE_BYTES)
  assert.equal(messages, [])
})

for (const era of ['modern', 'legacy'] as const) {
  run(`tools of both backends are listed and called, ${era}`, async () => {
    const { client } = await connect(gateway, era)
    const names = await toolNames(client)
    assert.ok(names.includes('clock_convert_time'))
    assert.equal(
      names.filter((name) => name.startsWith('everything_')).sort(),
      ['echo', 'get-structured-content', 'get-sum', 'trigger-long-running-operation'].map(
        (name) => `everything_${name}`,
      ),
    )
    const sum = await client.callTool({ name: 'everything_get-sum', arguments: { a: 2, b: 3 } })
    assert.match(readText(sum), '5')
    const time = { time: '2026-11-20T15:00', from: 'Europe/Lisbon', to: ['Asia/Tokyo'] }
    const converted = await client.callTool({ name: 'clock_convert_time', arguments: time })
    assert.match(readText(converted), '2026-11-21 00:00  Asia/Tokyo')
    await client.close()
  })
}

run('an SDK 1 client works through the proxy of a single server too', async () => {
  const server = first.endpoints.find(({ kind, name }) => kind === 'MCPServer' && name === 'everything')
  const { client } = await connectV1(server?.url ?? '')
  const answer = await client.callTool({ name: 'echo', arguments: { message: 'hello' } })
  assert.match(readText(answer), 'hello')
  await client.close()
})

run('the MCP Inspector’s CLI calls a tool', async () => {
  for (const era of ['modern', 'legacy']) {
    const args = ['--cli', gateway, '--transport', 'http', '--protocol-era', era, '--method', 'tools/call']
    const call = ['--tool-name', 'everything_echo', '--tool-arg', 'message=hello']
    const { stdout } = await program(join(repository, 'node_modules/.bin/mcp-inspector'), [...args, ...call])
    assert.match(stdout, 'Echo: hello')
  }
})

run('the registry lists real servers', async () => {
  const { url } = endpoint(first, 'MCPRegistry')
  const response = await fetch(`${url}/registry/public/v0.1/servers`)
  const body = (await response.json()) as { servers: { server: { name: string } }[] }
  assert.ok(body.servers.length >= 12)
  assert.ok(body.servers.some(({ server }) => server.name === 'com.notion/mcp'))
})

run('every command in the README works', async () => {
  const readme = readFileSync(join(repository, 'samples/quickstart/README.md'), 'utf8')
  const commands = [...readme.matchAll(/^```sh\n(.*?)^```/gms)].flatMap(([, block]) => (block ?? '').trim().split('\n'))
  assert.ok(commands.length >= 6)
  const registry = endpoint(first, 'MCPRegistry').url
  for (const command of commands) {
    const here = command.replace('http://127.0.0.1:4483/mcp', gateway).replace('http://127.0.0.1:8080', registry)
    const { stdout } = await program('/bin/sh', ['-c', here])
    assert.ok(stdout.length > 40, command)
  }
})

run('a changed tool filter takes effect without a restart, the session lives on', async () => {
  const { client, transport } = await connect(gateway, 'legacy')
  const session = transport.sessionId
  const undo = sample.edit('gateway.yaml', (text) => text.replace('- echo', '- get-env'))
  await eventually('get-env is there, echo is not', async () => {
    const names = await toolNames(client)
    return names.includes('everything_get-env') && !names.includes('everything_echo')
  })
  undo()
  await eventually('echo is back', async () => (await toolNames(client)).includes('everything_echo'))
  assert.is(transport.sessionId, session)
  assert.is(endpoint(portico.reports.at(-1) as Report, 'VirtualMCPServer').url, gateway)
  await client.close()
})

const secondClock = `apiVersion: portico.dev/v1beta1
kind: MCPServer
metadata:
  name: second
  annotations:
    portico.dev/local-command: node clock-server.ts
spec:
  image: portico-samples/clock:1.0.0
  transport: streamable-http
  groupRef:
    name: quickstart
`

run('a backend that is added and removed, the session lives on', async () => {
  const { client, transport } = await connect(gateway, 'legacy')
  const session = transport.sessionId
  const file = sample.write('manifests/second.yaml', secondClock)
  await eventually('the new backend’s tools are there', async () =>
    (await toolNames(client)).includes('second_current_time'),
  )
  const answer = await client.callTool({ name: 'second_current_time', arguments: { zones: ['UTC'] } })
  assert.match(readText(answer), 'UTC')
  rmSync(file)
  await eventually(
    'its tools are gone',
    async () => !(await toolNames(client)).some((name) => name.startsWith('second_')),
  )
  await portico.report(
    'it is gone from the endpoints',
    ({ endpoints }) => endpoints.length === 5,
    portico.reports.findIndex(({ endpoints }) => endpoints.length === 6),
  )
  assert.is(transport.sessionId, session)
  await client.close()
})

const broken: readonly (readonly [title: string, change: (text: string) => string, problem: RegExp, reason: string])[] =
  [
    [
      'a field that there is not',
      (text) => text.replace('filter:', 'filtr:'),
      /gateway\.yaml:\d+: \/spec\/config/,
      'SchemaInvalid',
    ],
    ['bad YAML', (text) => text.replace('- echo', '- [echo'), /gateway\.yaml:\d+: /, 'SyntaxInvalid'],
    [
      'an unknown reference',
      (text) => text.replace('name: quickstart', 'name: nowhere'),
      /MCPGroup "nowhere" is missing/,
      'ReferenceNotFound',
    ],
  ]

for (const [title, change, message, reason] of broken) {
  run(`${title} is a problem, and the version before it serves`, async () => {
    const { client } = await connect(gateway, 'modern')
    const before = portico.reports.length
    const undo = sample.edit('gateway.yaml', change)
    const report = await portico.report('the problem is told', ({ problems }) => problems.length > 0, before)
    const { problems } = report
    assert.is(problems[0]?.reason, reason)
    assert.match(problems[0]?.message ?? '', message)
    assert.ok((await toolNames(client)).includes('everything_echo'))
    undo()
    await portico.report(
      'the problem is solved',
      ({ problems }) => problems.length === 0,
      portico.reports.indexOf(report),
    )
    await client.close()
  })
}

run('another run on the same state directory is refused', async () => {
  const other = new RunningPortico([sample.manifests, '--state', sample.state], env)
  assert.is(await other.ended(), '1')
  assert.match(other.errors, 'is in use by another portico run')
})

run('a taken port is named and the rest serves; the workload starts once the port is free', async () => {
  const taken = await holdPort()
  using copy = copyOfSample({ gateway: taken.port, registry: await freePort() })
  // The gateway needs none of its servers here, and each would be two more processes.
  for (const server of ['everything.yaml', 'clock.yaml']) rmSync(join(copy.manifests, server))
  const other = new RunningPortico([copy.manifests, '--state', copy.state], env)
  try {
    const isTold = ({ problems }: Report) => problems.some(({ reason }) => reason === 'PortTaken')
    const report = await other.report('the port is named', isTold)
    const problem = report.problems.find(({ reason }) => reason === 'PortTaken')
    assert.equal([problem?.kind, problem?.name], ['VirtualMCPServer', 'tools'])
    assert.match(problem?.message ?? '', `port ${taken.port} on 127.0.0.1 is taken`)
    await eventually('the log names it too', () => other.errors.includes(`port ${taken.port}`))
    assert.is(report.ready, false)
    await release(taken.server)
    await other.ready()
  } finally {
    await other.stop()
  }
})

run('SIGKILL leaves no process behind, and the next run takes over', async () => {
  portico.signal('SIGKILL')
  await portico.ended()
  await waitUntilNoneLeft()
  portico = new RunningPortico([sample.manifests, '--state', sample.state], env)
  const again = await portico.ready()
  const workloads = ({ endpoints }: Report) => endpoints.filter(({ kind }) => kind !== 'Console')
  assert.equal(workloads(again), workloads(first))
})

run('SIGINT stops everything within seconds', async () => {
  assert.ok(processesMarked(mark).length >= 7)
  await portico.stop()
  assert.is(portico.exitCode, 0)
  await waitUntilNoneLeft()
})

run.run()
