/** `make check`: types, lint, import arrows, ways, floating promises, locked packages, nesting, generated files fresh. Runs every check and fails when one does. */
import { spawn } from 'node:child_process'

interface Check {
  readonly name: string
  readonly command: readonly string[]
}

const bin = new URL('../node_modules/.bin/', import.meta.url).pathname
const checks: readonly Check[] = [
  { name: 'types', command: [`${bin}tsc`, '-p', '.'] },
  { name: 'lint', command: [`${bin}biome`, 'ci', '--colors=off', '--error-on-warnings', '.'] },
  { name: 'arrows', command: [process.execPath, 'check/arrows.ts'] },
  { name: 'ways', command: [process.execPath, 'check/ways.ts'] },
  { name: 'floating promises', command: [process.execPath, 'check/floating-promises.ts'] },
  { name: 'locked', command: [process.execPath, 'check/locked.ts'] },
  { name: 'nesting', command: [process.execPath, 'check/nesting.ts'] },
  { name: 'generated', command: [process.execPath, 'check/generate.ts', '--check'] },
]

function run(check: Check): Promise<boolean> {
  const [program, ...args] = check.command as [string, ...string[]]
  const started = performance.now()
  return new Promise((resolve) => {
    const child = spawn(program, args, { cwd: new URL('..', import.meta.url), stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    child.stdout.on('data', (chunk) => {
      output += chunk
    })
    child.stderr.on('data', (chunk) => {
      output += chunk
    })
    child.on('close', (code) => {
      const seconds = ((performance.now() - started) / 1000).toFixed(1)
      console.log(code === 0 ? `ok   ${check.name} (${seconds} s)` : `FAIL ${check.name}\n${output.trimEnd()}\n`)
      resolve(code === 0)
    })
  })
}

const outcomes = await Promise.all(checks.map(run))
process.exit(outcomes.every(Boolean) ? 0 : 1)
