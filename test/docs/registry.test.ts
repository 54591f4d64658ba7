import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseAllDocuments } from 'yaml'
import { checkRegistry } from '../../dataplane/config/check/registry.ts'
import { configParser } from '../../dataplane/config/read/parse.ts'
import { registryConfigSchema } from '../../dataplane/config/registry.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/network/free-port.ts'

const root = join(import.meta.dirname, '../..')
const text = readFileSync(join(root, 'docs/registry.md'), 'utf8')
const blocks = (language: string) =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map((match) => match[1] as string)

test('the commands work in the shown order and print what is promised', async () => {
  using folder = temporaryFolder()
  const [start = '', use = ''] = blocks('sh')
  const ports = { 8080: await freePort(), 8081: await freePort() }
  // A separator line keeps the answers of the commands apart.
  const commands = use.replaceAll(/^curl/gm, 'echo; echo ---; curl')
  const script =
    `${start.replace(/\bbin\/portico/, join(root, 'bin/portico'))}\ntrap 'kill $!' EXIT\n${commands}`.replace(
      /127\.0\.0\.1:(808[01])/g,
      (_, port) => {
        return `127.0.0.1:${ports[port as unknown as keyof typeof ports]}`
      },
    )
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: folder.path,
    env: { ...process.env, PATH: [dirname(process.execPath), process.env['PATH']].join(delimiter) },
    timeout: 120_000,
  })
  const [, found, latest, published, clock, synced, source, page] = stdout.split('\n---\n')
  assert.is(JSON.parse(found ?? '').servers[0].server.name, 'com.example/weather')
  assert.is(JSON.parse(latest ?? '').server.version, '1.0.0')
  assert.match(published ?? '', 'com.example/clock')
  assert.is(JSON.parse(clock ?? '').server.description, 'Tells the time.')
  assert.is(JSON.parse(synced ?? '').state, 'ok')
  assert.is(JSON.parse(source ?? '').sync.servers, 1)
  assert.match(page ?? '', 'com.example/clock')
})

test('the shown auth block is valid for the server', () => {
  const parse = configParser(registryConfigSchema, checkRegistry)
  const auth = blocks('yaml').find((block) => block.startsWith('auth:')) ?? ''
  parse(`sources: [{name: a, managed: {}}]\nregistries: [{name: b, sources: [a], claims: {org: acme}}]\n${auth}`)
})

test('the manifests that are shown are YAML', () => {
  for (const block of blocks('yaml'))
    for (const document of parseAllDocuments(block)) assert.equal(document.errors, [], block)
})

test.run()
