import { spawn } from 'node:child_process'

interface Check {
  readonly name: string
  readonly command: readonly string[]
  /** True for a check that takes too long for the inner loop. */
  readonly isSlow?: true
}

const isAll = process.env['ALL'] === '1' || process.env['CI'] === 'true'
/** The compiler's cached state of the files that have not changed since the last check. */
const KNOWN = new URL('../node_modules/.cache/portico/check.tsbuildinfo', import.meta.url).pathname

/** Several checkers would each find out the types that all files share: twice the processor time, and no faster here. */
const TSC = ['-p', '.', '--checkers', '1']

const bin = new URL('../node_modules/.bin/', import.meta.url).pathname
const checks: readonly Check[] = [
  { name: 'types', command: [`${bin}tsc`, ...TSC, ...(isAll ? [] : ['--incremental', '--tsBuildInfoFile', KNOWN])] },
  { name: 'lint', command: [`${bin}biome`, 'ci', '--colors=off', '--error-on-warnings', '.'] },
  { name: 'arrows', command: [process.execPath, 'check/arrows.ts'] },
  { name: 'ways', command: [process.execPath, 'check/ways.ts'] },
  { name: 'floating promises', command: [process.execPath, 'check/floating-promises.ts'], isSlow: true },
  { name: 'links', command: [process.execPath, 'check/links.ts'] },
  { name: 'locked', command: [process.execPath, 'check/locked.ts'] },
  { name: 'nesting', command: [process.execPath, 'check/nesting.ts'], isSlow: true },
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

const chosen = checks.filter(({ isSlow }) => isAll || !isSlow)
const outcomes = await Promise.all(chosen.map(run))
const left = checks.filter((check) => !chosen.includes(check)).map(({ name }) => name)
if (left.length > 0) console.log(`not run: ${left.join(', ')} (make check ALL=1)`)
process.exit(outcomes.every(Boolean) ? 0 : 1)
