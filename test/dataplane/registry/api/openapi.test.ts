import { type ExecFileException, execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import { pythonWith } from '../../../setup/python.ts'
import { type AuthzRegistry, startAuthzRegistry } from '../../../support/registry/authz.ts'

const run = promisify(execFile)

let it: AuthzRegistry
test.before(async () => {
  it = await startAuthzRegistry()
})
test.after(() => it.close())

interface Description {
  readonly openapi: string
  readonly paths: Record<string, Record<string, { operationId: string; responses: Record<string, unknown> }>>
}

const readDescription = async () => (await it.as(undefined, 'GET', '/openapi.json')).body as Description

test('the API describes itself, the same in JSON and YAML', async () => {
  const json = await readDescription()
  assert.is(json.openapi, '3.1.0')
  const yaml = await fetch(`${it.registry.url}/openapi.yaml`)
  assert.is(yaml.headers.get('content-type'), 'application/yaml')
  assert.equal(parse(await yaml.text()), json)
})

test('each operation has a unique id and lists every common error; no keyword of ours is published', async () => {
  const { paths } = await readDescription()
  const operations = Object.values(paths).flatMap((path) => Object.values(path))
  const names = operations.map(({ operationId }) => operationId)
  assert.is(new Set(names).size, names.length)
  for (const { responses } of operations) for (const status of ['401', '500', '503']) assert.ok(responses[status])
  assert.not.match(JSON.stringify(paths), /"(readBy|says|exactlyOne|x-kubernetes-[a-z-]+)":/)
})

/** Makes a few thousand requests from the description. schemathesis.toml lists what no schema can express. */
test('schemathesis finds nothing', async () => {
  const token = await it.idp.mint(
    { aud: 'https://registry.example', sub: 'root', role: 'super-admin' },
    { expiresIn: 3600 },
  )
  const config = fileURLToPath(new URL('../../../support/python/schemathesis.toml', import.meta.url))
  await findsNothing(it, ['--config-file', config], ['--header', `Authorization: Bearer ${token}`])
})

test('schemathesis finds nothing if anybody may publish: each document that matches the description is accepted', async () => {
  await it.restart({ mode: 'anonymous' })
  await findsNothing(it, [], ['--include-operation-id', 'publish'])
})

/** Runs schemathesis on a registry; `options` are the program's, `more` the run's. */
async function findsNothing({ registry }: AuthzRegistry, options: string[], more: string[]): Promise<void> {
  const python = pythonWith('schemathesis')
  const { stdout } = await run(
    python,
    [
      ...['-m', 'schemathesis.cli', ...options, 'run', `${registry.url}/openapi.json`, ...more],
      ...['--max-examples', '4', '--seed', '1', '--no-color', '--generation-database', 'none'],
      // Neither an answer nor an example has to come sooner than a busy machine gives it.
      ...['--request-timeout', '60', '--suppress-health-check', 'too_slow'],
    ],
    { cwd: registry.folder.directory, maxBuffer: 64 * 1024 * 1024 },
  ).catch(({ code, signal, stdout, stderr }: ExecFileException) => {
    // The error's message has the command, which has the token.
    throw new Error(`schemathesis ended with ${signal ?? code}\n${stdout}\n${stderr}`)
  })
  const [, generated, passed] = /(\d+) generated, (\d+) passed/.exec(stdout) ?? []
  assert.ok(Number(generated) > 500, stdout)
  assert.is(passed, generated)
}

test.run()
