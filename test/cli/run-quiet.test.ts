import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../support/eventually.ts'
import { type TemporaryFolder, temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/network/free-port.ts'
import { object, server } from '../support/operator/standalone-run.ts'
import { porticoProgram } from '../support/portico-program.ts'

const repository = join(import.meta.dirname, '../..')
const node = JSON.stringify(process.execPath)
/** A slow server that writes to stdout and stderr; the gateway has to wait for it. */
const slow = `echo chatter on start; echo npm notice news >&2; sleep 1; exec ${node} ${join(repository, 'samples/quickstart/clock-server.ts')}`
const group = object('MCPGroup', 'all', 'spec: {}\n')

const gateway = object(
  'VirtualMCPServer',
  'tools',
  '  annotations: {portico.dev/local-port: "PORT"}\nspec:\n  groupRef: {name: all}\n  incomingAuth: {type: anonymous}\n',
)

/** The command of a checkout, which loads the sources. */
const COMMAND = [join(repository, 'bin/portico')]

/** Runs manifests with `portico run` until the output satisfies the condition; returns both outputs and the log. */
async function run(
  folder: TemporaryFolder,
  args: readonly string[],
  until: (out: string, err: string) => boolean,
  [program = '', ...options]: readonly string[] = porticoProgram,
) {
  const state = join(folder.path, 'state')
  const child = spawn(program, [...options, 'run', join(folder.path, 'm'), '--state', state, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    out += chunk
  })
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    err += chunk
  })
  const gone = new Promise((resolve) => child.once('close', resolve))
  try {
    await eventually('the expected output', () => until(out, err)).catch((error: Error) => {
      throw new Error(`${error.message}\n${out}\n${err}`)
    })
  } finally {
    child.kill('SIGINT')
    await gone
  }
  return { out, err, log: readFileSync(join(state, 'run.log'), 'utf8') }
}

async function startSuccessfully(args: readonly string[], program?: readonly string[]) {
  const port = String(await freePort())
  using folder = temporaryFolder({
    'm/a.yaml': [group, gateway.replace('PORT', port), server('clock', slow, '  groupRef: {name: all}\n')].join(
      '---\n',
    ),
  })
  const isServed = (kind: string, out: string) => new RegExp(`\\b${kind} .*http://127\\.0\\.0\\.1`).test(out)
  const isUp = (out: string) => ['VirtualMCPServer', 'MCPServer'].every((kind) => isServed(kind, out))
  return await run(folder, args, isUp, program)
}

test('a good start prints only the table, and the rest goes to the log', async () => {
  const { out, err, log } = await startSuccessfully([], COMMAND)
  assert.is(err, '')
  const [first = '', ...rest] = out.split('\n')
  assert.match(first, /^Starting the workloads of .*; the output of the processes is in .*run\.log$/)
  // On a slow machine servers start later than the table waits, and get a line each.
  assert.match(rest.join('\n'), /^\n {2}KIND |^Still starting: /)
  assert.not.match(out, /chatter|notice|ECONNREFUSED/)
  assert.match(log, 'MCPServer default/clock: chatter on start')
  assert.match(log, 'npm notice news')
  assert.match(log, 'the gateway serves')
})

test('--verbose shows what the processes write', async () => {
  const { err } = await startSuccessfully(['--verbose'])
  assert.match(err, 'MCPServer default/clock: chatter on start')
})

test('a bad start prints the cause, and where to read more', async () => {
  using folder = temporaryFolder({ 'm/a.yaml': server('broken', 'no-such-program --serve') })
  const { err } = await run(folder, [], (_, errors) => errors.includes('run.log'))
  assert.match(err, /^portico: error: MCPServer default\/broken: .*no-such-program: not found.*\n/)
  assert.match(err, /portico: more of their output is in .*run\.log/)
})

test('an unreadable file is reported with its line', async () => {
  using folder = temporaryFolder({ 'm/a.yaml': 'a: b\n\tc: d\n' })
  const { err } = await run(folder, [], (_, errors) => errors.includes('a.yaml'))
  assert.match(err, /a\.yaml:2: Tabs are not allowed/)
  assert.not.match(err, 'run.log')
})

test.run()
