import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { Child, type ProcessSpec } from '../../../../operator/standalone/process/child.ts'
import { eventually } from '../../../support/eventually.ts'
import { temporaryFolder } from '../../../support/folder.ts'
import { freePort } from '../../../support/network/free-port.ts'
import { processesMarked } from '../../../support/operator/running-portico.ts'

function start(spec: Omit<ProcessSpec, 'title' | 'cwd'> & { readonly cwd?: string }) {
  const lines: string[] = []
  const logged: string[] = []
  let changes = 0
  const child = new Child(
    { title: 'MCPServer default/x', cwd: '/', ...spec },
    {
      environment: process.env,
      onChange: () => {
        changes++
      },
      log: (line) => logged.push(line),
      show: (line) => lines.push(line),
      redact: (text) => text.replaceAll('hunter2', '[redacted]'),
    },
  )
  return { child, lines, logged, changes: () => changes }
}

const node = JSON.stringify(process.execPath)
const listening = `require('http').createServer((q, r) => r.writeHead(405).end()).listen(process.env.PORT, '127.0.0.1')`

test('a local command is ready when it answers, whatever it answers', async () => {
  const port = await freePort()
  const { child, lines } = start({
    run: { foreign: `echo "on $PORT"; exec ${node} -e "${listening}"` },
    env: { PORT: String(port) },
    readyUrl: `http://127.0.0.1:${port}/mcp`,
  })
  assert.equal(child.state, { phase: 'starting' })
  await eventually('it is ready', () => child.state.phase === 'ready')
  assert.equal(lines, [`MCPServer default/x: on ${port}`])
  await child.stop()
  assert.is(await fetch(`http://127.0.0.1:${port}`).catch(() => 'gone'), 'gone')
})

test('a process that ends is a problem with its last lines, without secrets, and is restarted', async () => {
  using folder = temporaryFolder({ count: '' })
  const count = join(folder.path, 'count')
  const port = await freePort()
  const { child, lines, logged } = start({
    run: {
      foreign: `echo x >> count; if [ -f good ]; then exec ${node} -e "${listening}"; fi; echo "key hunter2 is bad" >&2; exit 3`,
    },
    env: { PORT: String(port) },
    cwd: folder.path,
    readyUrl: `http://127.0.0.1:${port}/mcp`,
  })
  await eventually('a problem', () => child.state.phase === 'failed')
  assert.equal(child.state, {
    phase: 'failed',
    reason: 'Crashed',
    message: 'exited with code 3; it said: key [redacted] is bad',
  })
  await eventually('a second start', () => readFileSync(count, 'utf8').split('\n').length > 2)
  assert.equal(new Set(lines), new Set(['MCPServer default/x: key [redacted] is bad']))
  writeFileSync(join(folder.path, 'good'), '')
  await eventually('it is ready', () => child.state.phase === 'ready')
  await child.stop()
  assert.match(logged.join('\n'), 'key [redacted] is bad')
  assert.not.match(logged.join('\n'), 'hunter2')
})

test('a missing program is a problem', async () => {
  const { child } = start({ run: { own: ['/nowhere/portico'] }, env: {}, readyUrl: 'http://127.0.0.1:9/' })
  await eventually('a problem', () => child.state.phase === 'failed')
  assert.match(child.state.phase === 'failed' ? child.state.message : '', "can't be started")
  await child.stop()
})

test('a stop takes the whole process group, one that ignores SIGTERM too', async () => {
  const mark = `mark-${process.pid}-${Date.now()}`
  const port = await freePort()
  const stubborn = `process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)`
  const { child } = start({
    run: { foreign: `${node} -e "${stubborn}" & ${node} -e "${listening}" & wait` },
    env: { PORT: String(port), MARK: mark },
    readyUrl: `http://127.0.0.1:${port}/mcp`,
  })
  await eventually('it is ready', () => child.state.phase === 'ready')
  assert.ok(processesMarked(mark).length >= 4)
  await child.stop()
  await eventually('nothing is left', () => processesMarked(mark).length === 0)
})

test('our own process ends when its channel closes, and must answer 200', async () => {
  let status = 503
  const server = createServer((_, response) => response.writeHead(status).end())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const waits = `process.on('disconnect', () => process.exit()); console.error('{"level":"warn","msg":"careful"}'); console.error('{"level":"info","msg":"fine"}')`
  const { child, lines } = start({
    run: { own: [process.execPath, '-e', waits] },
    env: {},
    readyUrl: `http://127.0.0.1:${port}/readyz`,
  })
  await eventually('its warning', () => lines.length > 0)
  assert.equal(lines, ['MCPServer default/x: warn: careful'])
  assert.equal(child.state, { phase: 'starting' })
  status = 200
  await eventually('it is ready', () => child.state.phase === 'ready')
  await child.stop()
  server.close()
})

test.run()
