import { spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { setPriority } from 'node:os'
import { delimiter, join } from 'node:path'
import { takeEnded } from './runner/cpu.ts'

/** Returns the path of a program, as the shell finds it, or undefined if it is not installed. */
export function programPath(name: string): string | undefined {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    const path = join(folder, name)
    try {
      accessSync(path, constants.X_OK)
      return path
    } catch {}
  }
  return undefined
}

export interface Command {
  readonly program: string
  readonly args: readonly string[]
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
}

/** Tests run at the same time and have deadlines, so each of their processes gets three times the share of a core. */
const NICENESS = 5
/** The part of a program's last output that an error shows. */
const SHOWN = 4000

/**
 * Runs a program and returns its standard output. `line` gets each line of both outputs as it arrives. Throws with the
 * end of the output if the program fails. If a signal ends this process, the program ends with it.
 */
export async function run(
  { program, args, cwd, env }: Command,
  line: (text: string) => void = () => {},
): Promise<string> {
  const child = spawn(program, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  try {
    if (child.pid !== undefined) setPriority(child.pid, NICENESS)
  } catch {
    // The program has already ended.
  }
  let output = ''
  let end = ''
  const collect = () => {
    let rest = ''
    return (chunk: string) => {
      end = (end + chunk).slice(-SHOWN)
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() ?? ''
      for (const text of lines) line(text)
    }
  }
  child.stderr.setEncoding('utf8').on('data', collect())
  child.stdout
    .setEncoding('utf8')
    .on('data', collect())
    .on('data', (chunk: string) => {
      output += chunk
    })
  const endWithUs = (signal: NodeJS.Signals) => {
    child.kill(signal)
    process.exit(1)
  }
  for (const signal of SIGNALS) process.once(signal, endWithUs)
  try {
    const code = await new Promise<unknown>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', (exit, signal) => resolve(exit ?? signal))
    })
    // This time does not count for any test file.
    takeEnded()
    if (code !== 0) throw new Error(`\`${[program, ...args].join(' ')}\` ended with ${code}:\n${end.trimEnd()}`)
    return output
  } finally {
    for (const signal of SIGNALS) process.off(signal, endWithUs)
  }
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
