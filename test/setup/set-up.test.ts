import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync } from 'node:fs'
import { delimiter, join, relative } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../support/eventually.ts'
import { type TemporaryFolder, temporaryFolder } from '../support/folder.ts'
import { setUp } from './index.ts'
import { runLocked } from './lock.ts'

const root = join(import.meta.dirname, '../..')

/** A Go that builds until the file `gate` exists, and logs each build with its process id. */
const GO = `#!/bin/sh
home=$(dirname "$0")/..
case $1 in
  env) echo go1.26.0 ;;
  list) echo one; echo two ;;
  build)
    echo $$ >> "$home/builds"
    while [ "$1" != -o ]; do shift; done
    echo half > "$2"
    while [ ! -e "$home/gate" ]; do sleep 0.05; done
    echo program > "$2" ;;
esac
`

/** A simulated machine: an empty cache, and our programs before the real ones. */
function bareMachine(programs: Readonly<Record<string, string>>, path = process.env['PATH'] ?? '') {
  const folder = temporaryFolder({ 'bin/.keep': '' })
  for (const [name, script] of Object.entries(programs)) chmodSync(folder.write(`bin/${name}`, script), 0o755)
  const env = {
    ...process.env,
    HOME: folder.path,
    XDG_CACHE_HOME: join(folder.path, 'cache'),
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? join(folder.path, 'compiled'),
    KUBEBUILDER_ASSETS: '',
    PATH: [join(folder.path, 'bin'), path].join(delimiter),
  }
  const run = (script: string, args: readonly string[], more: Readonly<Record<string, string>> = {}) =>
    new Script(script, args, { ...env, ...more })
  const listKept = () => {
    const cache = join(folder.path, 'cache', 'portico')
    return existsSync(cache) ? readdirSync(cache).filter((name) => !/^(setup\.lock|durations)/.test(name)) : []
  }
  const builds = () => {
    const file = join(folder.path, 'builds')
    return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').map(Number) : []
  }
  return { ...folder, [Symbol.dispose]: folder[Symbol.dispose], run, listKept, builds }
}

class Script {
  readonly child: ChildProcess
  output = ''
  #end: string | undefined

  constructor(script: string, args: readonly string[], env: Readonly<Record<string, string | undefined>>) {
    this.child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', script, ...args], {
      cwd: root,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [this.child.stdout, this.child.stderr])
      stream?.setEncoding('utf8').on('data', (chunk: string) => {
        this.output += chunk
      })
    this.child.once('close', (code, signal) => {
      this.#end = String(code ?? signal)
    })
  }

  says(text: string): Promise<void> {
    return eventually(`it says ${text}`, () => this.output.includes(text), 60_000).catch((error: Error) => {
      throw new Error(`${error.message}\n${this.output}`)
    })
  }

  async end(): Promise<string> {
    await eventually('the process has ended', () => this.#end !== undefined)
    return this.#end as string
  }
}

const SET_UP = 'test/setup/run.ts'

/** Tells whether a process runs. An ended process that nobody has waited for has no command line. */
function isAlive(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8') !== ''
  } catch {
    return false
  }
}

test('two concurrent set-ups build once: the second waits for the first, and a third has nothing to do', async () => {
  using machine = bareMachine({ go: GO })
  const one = machine.run(SET_UP, ['cluster/api-server'])
  await one.says('→ Kubernetes')
  const two = machine.run(SET_UP, ['cluster/api-server'])
  await two.says('waiting for its end')
  machine.write('gate', '')
  assert.is(await one.end(), '0', one.output)
  assert.is(await two.end(), '0', two.output)
  assert.match(one.output, /^Set-up, once on this machine, about 8 minutes on two cores:\n {2}Kubernetes/)
  assert.is(machine.builds().length, 1)
  assert.is(machine.listKept().length, 1)
  const third = machine.run(SET_UP, ['cluster/api-server'])
  assert.is(await third.end(), '0')
  assert.is(third.output, '')
})

test('a killed set-up leaves no lock and no half-built program behind', async () => {
  using machine = bareMachine({ go: GO })
  const killed = machine.run(SET_UP, ['cluster/api-server'])
  await eventually('the build runs', () => machine.builds().length === 1)
  killed.child.kill('SIGKILL')
  assert.is(await killed.end(), 'SIGKILL')
  const next = machine.run(SET_UP, ['cluster/api-server'])
  await eventually('the next build runs', () => machine.builds().length === 2)
  machine.write('gate', '')
  assert.is(await next.end(), '0', next.output)
  // The build, whose parent is gone, can no longer write.
  await eventually('no build is left', () => !machine.builds().some(isAlive))
  assert.is(machine.listKept().length, 1)
})

test('Ctrl-C and a supervisor’s SIGTERM end the build with the set-up', async () => {
  using machine = bareMachine({ go: GO })
  const stopped = machine.run(SET_UP, ['cluster/api-server'])
  await eventually('the build runs', () => machine.builds().length === 1)
  stopped.child.kill('SIGTERM')
  assert.is(await stopped.end(), '1')
  await eventually('no build is left', () => !machine.builds().some(isAlive))
})

const uvu = join(root, 'node_modules/uvu/dist/index.mjs')

/** A file that needs nothing. */
const FREE = `import { test } from ${JSON.stringify(uvu)}
test('one', () => {})
test.run()
`

/** A file in a machine's folder that needs Kubernetes. */
const onCluster = ({ path }: TemporaryFolder) => `import { test } from ${JSON.stringify(uvu)}
import { kubernetes } from '${relative(path, join(root, 'test/cluster/support/binary.ts'))}'
test('one', () => void kubernetes())
test.run()
`

test('files without needs run during set-up, and the others wait for what they need', async () => {
  using machine = bareMachine({ go: GO })
  machine.write('free.test.ts', FREE)
  machine.write('on-cluster.test.ts', onCluster(machine))
  const all = machine.run('test/run.ts', [], { TEST_FILES: join(machine.path, '*.test.ts') })
  await all.says('free.test.ts (1 passed')
  await eventually('the build runs', () => machine.builds().length === 1)
  assert.not.match(all.output, 'Set-up is done')
  machine.write('gate', '')
  assert.is(await all.end(), '0', all.output)
  assert.match(all.output, /Set-up is done \(.*\)\nok .*on-cluster\.test\.ts/)
  assert.match(all.output, /2 passed, 0 failed\n$/)
})

test('the result of another set-up is used as soon as it is there', async () => {
  using machine = bareMachine({ go: GO })
  machine.write('on-cluster.test.ts', onCluster(machine))
  machine.write('gate', '')
  const built = machine.run(SET_UP, ['cluster/api-server'])
  assert.is(await built.end(), '0', built.output)
  const [program] = machine.listKept() as [string]
  const place = (name: string) => join(machine.path, 'cache/portico', name)
  renameSync(place(program), place('elsewhere'))
  const locked1 = runLocked(place('setup.lock'), assert.unreachable, async () => {
    const all = machine.run('test/run.ts', [], { TEST_FILES: join(machine.path, '*.test.ts') })
    await all.says('waiting for its end')
    renameSync(place('elsewhere'), place(program))
    await all.says('1 passed, 0 failed')
    return all
  })
  assert.is(await (await locked1).end(), '0')
})

test('a missing need that only the user can bring gets a line with its command, and the rest is tested', async () => {
  using machine = bareMachine({}, '')
  symlinkSync('/bin/sh', join(machine.path, 'bin/sh'))
  machine.write('on-cluster.test.ts', onCluster(machine))
  const env = { TEST_FILES: join(machine.path, '*.test.ts'), CI: '' }
  const none = machine.run('test/run.ts', [], env)
  assert.is(await none.end(), '1', none.output)
  assert.match(none.output, /nothing could be tested\n0 passed, 0 failed\n$/)
  machine.write('free.test.ts', FREE)
  const some = machine.run('test/run.ts', [], env)
  assert.is(await some.end(), '0', some.output)
  assert.match(
    some.output,
    /^not run: \S*on-cluster\.test\.ts, for want of Go 1\.21 or newer: (from https:\/\/go\.dev\/dl|brew install go)/m,
  )
  assert.match(some.output, /1 passed, 0 failed\n$/)
  const inCi = machine.run('test/run.ts', [], { ...env, CI: 'true' })
  assert.is(await inCi.end(), '1')
  assert.match(inCi.output, /^failed: \S*on-cluster\.test\.ts \(set-up: Kubernetes .* takes Go 1\.21 or newer, /m)
  assert.match(inCi.output, /1 passed, 1 failed\n$/)
  assert.equal(machine.listKept(), [])
})

test('where a build fails, the files that need it fail for that reason, and the others run', async () => {
  using machine = bareMachine({ go: GO.replace('echo one', 'echo no space left on device >&2; exit 1; echo one') })
  machine.write('free.test.ts', FREE)
  machine.write('on-cluster.test.ts', onCluster(machine))
  const all = machine.run('test/run.ts', [], { TEST_FILES: join(machine.path, '*.test.ts') })
  assert.is(await all.end(), '1')
  assert.match(
    all.output,
    /^FAIL .*on-cluster\.test\.ts .*: set-up: `go list -modfile=newest\.mod -deps \.` ended with 1:\n.*\n?no space left/m,
  )
  assert.match(all.output, /^ok .*free\.test\.ts/m)
  assert.match(all.output, /1 passed, 1 failed\n$/)
})

test('files that failed last time come first', async () => {
  using machine = bareMachine({})
  machine.write('free.test.ts', FREE)
  machine.write('wrong.test.ts', FREE.replace('=> {}', "=> { throw new Error('it is wrong') }"))
  const env = { TEST_FILES: join(machine.path, '*.test.ts'), TEST_JOBS: '1' }
  const first = machine.run('test/run.ts', [], env)
  assert.is(await first.end(), '1')
  assert.match(first.output, /^ok [\s\S]*^FAIL .*wrong\.test\.ts/m)
  const second = machine.run('test/run.ts', [], env)
  assert.is(await second.end(), '1')
  assert.match(second.output, /^FAIL .*wrong\.test\.ts[\s\S]*it is wrong[\s\S]*^ok /m)
})

test('a run that is stopped ends the files that are at work', async () => {
  using machine = bareMachine({})
  const file = machine.write(
    'hanging.test.ts',
    `import { writeFileSync } from 'node:fs'
setInterval(() => {}, 1000)
writeFileSync('${join(machine.path, 'pid')}', String(process.pid))
`,
  )
  const stopped = machine.run('test/run.ts', [], { TEST_FILES: file })
  const pid = () => (existsSync(join(machine.path, 'pid')) ? readFileSync(join(machine.path, 'pid'), 'utf8') : '')
  await eventually('the file runs', () => pid() !== '')
  stopped.child.kill('SIGTERM')
  assert.is(await stopped.end(), '1')
  await eventually('the file has ended', () => !isAlive(Number(pid())))
})

test('a failed build is reported with its output', async () => {
  using machine = bareMachine({ go: GO.replace('echo one', 'echo no space left on device >&2; exit 1; echo one') })
  const failed = machine.run(SET_UP, ['cluster/api-server'])
  assert.is(await failed.end(), '1')
  assert.match(failed.output, /`go list -modfile=newest\.mod -deps \.` ended with 1:\nno space left on device/)
})

test('as root on Debian packages are installed by one command, and one without effect is an error', async () => {
  const apt = `#!/bin/sh
home=$(dirname "$0")/..
echo "$*" >> "$home/asked"
case $* in *there*) touch "$home/there" ;; esac
`
  using machine = bareMachine({ 'apt-get': apt })
  mkdirSync(join(machine.path, 'cache'))
  const before = { PATH: process.env['PATH'], XDG_CACHE_HOME: process.env['XDG_CACHE_HOME'] }
  process.env['PATH'] = [join(machine.path, 'bin'), before.PATH].join(delimiter)
  process.env['XDG_CACHE_HOME'] = join(machine.path, 'cache')
  try {
    const buildNeed = (name: string) => ({
      name,
      present: () => existsSync(join(machine.path, name)),
      debian: [name, 'more'],
    })
    await setUp([buildNeed('there')], { isRoot: true, packages: 'apt' })
    const commands = readFileSync(join(machine.path, 'asked'), 'utf8').trim().split('\n')
    assert.equal(
      commands.map((line) => line.replace('-o DPkg::Lock::Timeout=300 ', '')),
      ['update', 'install --yes --no-install-recommends more there'],
    )
    const error = await setUp([buildNeed('absent')], { isRoot: true, packages: 'apt' }).catch(String)
    assert.match(String(error), 'still there is no absent')
  } finally {
    process.env['PATH'] = before.PATH
    if (before.XDG_CACHE_HOME === undefined) delete process.env['XDG_CACHE_HOME']
    else process.env['XDG_CACHE_HOME'] = before.XDG_CACHE_HOME
  }
})

test.run()
