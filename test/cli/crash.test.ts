/** Checks that an unhandled error ends each program, and that its report has the place and no secret. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../secrets/watch.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'

const repository = join(import.meta.dirname, '..', '..')

const TOKEN = secret(`eyJhbGciOiJub25lIn0.${'Y2FuYXJ5'.repeat(4)}.c2lnbmF0dXJlLWNhbmFyeQ`)
const PASSWORD = secret('canary-of-a-password')

/** Throws on a signal what HTTP and Redis clients throw: errors that contain the request. */
const hook = `
process.on('SIGWINCH', () => {
  const cause = Object.assign(new Error('connect redis://portico:${PASSWORD}@127.0.0.1:6379'), { command: { args: ['${PASSWORD}'] } })
  throw Object.assign(new Error('refused: Bearer ${TOKEN}', { cause }), { headers: { authorization: 'Bearer ${TOKEN}' } })
})`

const gateway = 'name: g\nnamespace: default\nrole: gateway\nincomingAuth: {type: anonymous}\nbackends: []\n'
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
`
const listeners = ['--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0']
const group = 'apiVersion: portico.dev/v1beta1\nkind: MCPGroup\nmetadata: {name: g}\nspec: {}\n'

const OWN_PORTS = ['--health-listen', '127.0.0.1:0', '--metrics-listen', '127.0.0.1:0']
const programs: Readonly<Record<string, readonly [args: (folder: string) => readonly string[], isUp: RegExp]>> = {
  serve: [
    (folder) => ['serve', 'gateway', '--config', join(folder, 'gateway.yaml'), ...listeners],
    /the gateway serves/,
  ],
  operator: [(folder) => ['operator', '--kubeconfig', join(folder, 'kubeconfig'), ...OWN_PORTS], /"msg":"started"/],
  run: [
    (folder) => ['run', join(folder, 'g.yaml'), '--state', join(folder, 'state'), '--console', 'off'],
    /Nothing is served yet/,
  ],
}

for (const [name, [args, isUp]] of Object.entries(programs))
  test(`${name}: an unhandled error ends the process and prints no secret`, async () => {
    using folder = temporaryFolder({ 'gateway.yaml': gateway, kubeconfig, 'g.yaml': group, 'hook.mjs': hook })
    const child = spawn(
      process.execPath,
      ['--import', join(folder.path, 'hook.mjs'), 'cli/main.ts', ...args(folder.path)],
      {
        cwd: repository,
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    )
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        output += chunk
      })
    const ended = once(child, 'close')
    try {
      await eventually(`${name} is up`, () => isUp.test(output) || child.exitCode !== null)
      assert.is(child.exitCode, null, output)
      child.kill('SIGWINCH')
      const [code] = await ended
      assert.is(code, 1, output)
    } finally {
      child.kill('SIGKILL')
    }
    assert.match(output, 'nobody handled this error: Error: refused: [redacted]')
    assert.match(output, 'caused by Error: connect redis://127.0.0.1:6379')
    assert.match(output, /\n\s+at /)
    for (const text of [TOKEN, PASSWORD]) assert.not.ok(output.includes(text), output)
  })

test.run()
