/** Starts a gateway and an operator as the image does: from one file and V8's code cache for it. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { NODE_FLAGS } from '../../build/node-flags.ts'
import { codeFile, startCodes, startText } from '../../build/start.ts'
import { eventually } from '../support/eventually.ts'
import { type TemporaryFolder, temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/network/free-port.ts'
import { writeBundle } from '../support/portico-program.ts'

const CONFIG = 'name: p\nnamespace: default\nrole: gateway\nincomingAuth: {type: anonymous}\nbackends: []\n'
/** Reports whether V8 accepted the code cache, which files are read, and at exit which parts of Node were loaded. */
const TELLS = `
const fs = require('node:fs'), vm = require('node:vm')
const tell = (...words) => fs.writeSync(2, words.join(' ') + '\\n')
const { readFileSync } = fs
fs.readFileSync = (file, ...more) => { tell('READ', file); return readFileSync(file, ...more) }
vm.Script = class extends vm.Script {
  constructor(...given) { super(...given); tell('CODE', this.cachedDataRejected === false ? 'taken' : 'made') }
}
process.on('exit', () => tell('BUILTIN', process.moduleLoadList.join(' ')))
`

let folder: TemporaryFolder
let dist: string

test.before(async () => {
  folder = temporaryFolder({ 'tells.cjs': TELLS, 'gateway.yaml': CONFIG })
  const built = join(folder.path, 'built')
  writeBundle(built)
  const codes = await startCodes(built)
  // The image has it elsewhere.
  dist = join(folder.path, 'dist')
  renameSync(built, dist)
  for (const [name, code] of codes) writeFileSync(join(dist, name), code)
})

test.after(() => folder[Symbol.dispose]())

/** Starts a program and waits until it prints `ready`. */
async function startProgram(flags: readonly string[], args: readonly string[], ready: string) {
  const program = ['--require', join(folder.path, 'tells.cjs'), join(dist, 'start.cjs')]
  const child = spawn(process.execPath, [...flags, ...program, ...args])
  const closed = once(child, 'close')
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  await eventually('it has started', () => output.includes(ready) || child.exitCode !== null, 60_000)
  return {
    output: () => output,
    chunksRead: () => [...output.matchAll(/^READ (.*\.js)$/gm)].map(([, file = '']) => basename(file)),
    async end() {
      child.kill('SIGTERM')
      await closed
      return output
    },
  }
}

async function start(flags: readonly string[] = NODE_FLAGS) {
  const options = ['--config', join(folder.path, 'gateway.yaml'), '--listen', '127.0.0.1:0', '--admin-listen']
  const program = await startProgram(flags, ['serve', 'gateway', ...options, '127.0.0.1:0'], 'the gateway serves')
  const urls = [...program.output().matchAll(/"(?:url|adminUrl)":"([^"]+)"/g)].map(([, found]) => found)
  const [url = '', adminUrl = ''] = urls
  return { ...program, url, adminUrl }
}

test('a gateway starts from its start-up code and reads no other chunk', async () => {
  const gateway = await start()
  assert.is((await fetch(`${gateway.adminUrl}/readyz`)).status, 200)
  assert.is((await fetch(`${gateway.adminUrl}/status`)).status, 200)
  assert.equal(gateway.chunksRead(), [])
  const output = await gateway.end()
  assert.match(output, /^CODE taken$/m)
  const [, builtins = ''] = /^BUILTIN (.*)$/m.exec(output) ?? []
  assert.match(builtins, / NativeModule http /)
  assert.not.match(builtins, /NativeModule internal\/deps\/undici\/undici\b/)
})

test('later modules are read from chunks, and none twice', async () => {
  const gateway = await start()
  const page = await fetch(gateway.url, { headers: { accept: 'application/json' } })
  assert.is(((await page.json()) as { name: string }).name, 'p')
  const refused = await fetch(`${gateway.adminUrl}/explain`, { method: 'POST', body: '{}' })
  assert.is(refused.status, 415)
  // Its output may be read after its answer.
  await eventually('chunks were read', () => gateway.chunksRead().length > 0)
  const read = gateway.chunksRead()
  const packed = readFileSync(join(dist, 'gateway.start'), 'utf8')
  assert.equal(
    read.filter((name) => packed.includes(`"${name}"(exports`)),
    [],
  )
  assert.is(new Set(read).size, read.length, 'each once')
  await gateway.end()
})

test('a gateway starts with start-up code of other flags, with a broken file and without one', async () => {
  for (const [flags, code] of [
    [[...NODE_FLAGS, '--expose-gc'], undefined],
    [NODE_FLAGS, 'rubbish'],
    [NODE_FLAGS, null],
  ] as const) {
    if (code === null) rmSync(join(dist, codeFile('gateway')))
    else if (code !== undefined) writeFileSync(join(dist, codeFile('gateway')), code)
    const gateway = await start(flags)
    assert.is((await fetch(`${gateway.adminUrl}/readyz`)).status, 200)
    assert.match(await gateway.end(), /^CODE made$/m)
  }
})

test('an operator starts from its start-up code and reads no other chunk', async () => {
  const kubeconfig = join(folder.path, 'kubeconfig.yaml')
  writeFileSync(
    kubeconfig,
    `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:${await freePort()}"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
users: [{name: u, user: {token: t}}]
`,
  )
  const listeners = ['--health-listen', '127.0.0.1:0', '--metrics-listen', '127.0.0.1:0']
  const args = ['operator', '--kubeconfig', kubeconfig, ...listeners]
  const operator = await startProgram(NODE_FLAGS, args, '"msg":"watch failed"')
  assert.equal(operator.chunksRead(), [])
  assert.match(await operator.end(), /^CODE taken$/m)
  rmSync(join(dist, codeFile('operator')))
  assert.match(await (await startProgram(NODE_FLAGS, args, '"msg":"watch failed"')).end(), /^CODE made$/m)
})

test('other commands do not read the start-up code', () => {
  const program = ['--require', join(folder.path, 'tells.cjs'), join(dist, 'start.cjs'), 'version']
  const { stdout, stderr } = spawnSync(process.execPath, program, { encoding: 'utf8' })
  assert.match(stdout, /^portico \d/)
  assert.not.match(stderr, /\.start$/m)
})

test('the start-up file is Latin-1, because other characters would double its memory', () => {
  const text = readFileSync(join(dist, 'gateway.start'), 'latin1')
  assert.match(text, '(ns|us|µs|ms|')
})

test('a character outside Latin-1 is refused in the start-up file', () => {
  const chunk = { name: 'a.js', code: 'exports.a="→"', map: '' }
  assert.throws(() => startText([chunk]), /a\.js/)
})

test.run()
