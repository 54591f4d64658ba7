/** The first process in the sandbox: starts the node, then the tests (or a shell), then stops the node. */
import { spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { E2E_PATTERN } from '../setup/test-files.ts'
import { nodeImages } from '../support/operator/e2e-images.ts'
import { startNode } from './node.ts'
import { endWithParent } from './sandbox.ts'

endWithParent()
const [directory = '', ...args] = process.argv.slice(2)
const root = join(import.meta.dirname, '..', '..')
const temporary = join(directory, 'tmp')
mkdirSync(temporary)
// The control plane and the tests create their folders there.
process.env['TMPDIR'] = temporary

function run(program: string, args: readonly string[], env: Readonly<Record<string, string>>): Promise<number> {
  const child = spawn(program, args, { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } })
  // The first process of a namespace only gets signals for which it has a handler.
  process.on('SIGINT', () => child.kill('SIGINT'))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => resolve(code ?? 1))
  })
}

const started = performance.now()
const node = await startNode(directory)
for (const image of await nodeImages()) node.importImage(image)
console.log(`a Kubernetes node is ready (${((performance.now() - started) / 1000).toFixed(1)} s)`)
const tests = {
  TEST_FILES: process.env['TEST_FILES'] ?? E2E_PATTERN,
  TEST_JOBS: '1',
  TEST_HANG_MS: process.env['TEST_HANG_MS'] ?? '1200000',
}
const env = { KUBECONFIG: node.kubeconfig, PORTICO_E2E: directory }
try {
  process.exitCode = args.includes('--shell')
    ? await run(process.env['SHELL'] ?? '/bin/sh', [], env)
    : await run(process.execPath, ['test/run.ts', ...args], { ...env, ...tests })
} finally {
  await node.stop()
}
