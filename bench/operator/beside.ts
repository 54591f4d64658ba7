/**
 * Compares the operator of this checkout with that of another commit: the same phases in turn, each in a separate
 * process.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { kubernetesVersion } from '../../test/setup/kubernetes.ts'
import { median } from '../percentile.ts'

/** The measured quantities of a phase, by their names in the comparison. */
const QUANTITIES = {
  'time, s': /^ {2}([\d.]+) s, /,
  'CPU of the operator, s': /, ([\d.]+) CPU s \(/,
  'CPU of the control plane, s': /\(([\d.]+) of the control plane\)/,
  requests: /, (\d+) requests \(/,
  'memory at its highest, MiB': /, (\d+) at its highest$/,
} as const
type Quantity = keyof typeof QUANTITIES

/** The quantities of each phase, by its title. */
export type Phases = ReadonlyMap<string, Readonly<Record<Quantity, number>>>

/** Parses the output of run.ts. Throws if it contains no phase. */
export function readPhases(printed: string): Phases {
  const phases = new Map<string, Readonly<Record<Quantity, number>>>()
  const lines = printed.split('\n')
  for (const [at, line] of lines.entries()) {
    const values = Object.entries(QUANTITIES).map(([name, pattern]) => [
      name,
      Number(pattern.exec(line)?.[1] ?? 'none'),
    ])
    if (values.every(([, value]) => Number.isFinite(value)))
      phases.set(lines[at - 1] ?? '', Object.fromEntries(values) as Record<Quantity, number>)
  }
  if (phases.size === 0) throw new Error(`no phase is told in:\n${printed.slice(-2000)}`)
  return phases
}

/** Smaller differences, in the quantity's unit, are not a loss: they are clock ticks and pages. */
const NOTHING: Readonly<Record<Quantity, number>> = {
  'time, s': 0.3,
  'CPU of the operator, s': 0.2,
  'CPU of the control plane, s': 0.5,
  requests: 2,
  'memory at its highest, MiB': 4,
}
/** Medians within this ratio count as equal. */
const ALIKE = 1.03

export interface Comparison {
  readonly lines: readonly string[]
  /** The losses of the new side: each of its runs was above every run of the old side, and the medians differ too. */
  readonly lost: readonly string[]
}

/** Compares the runs of both sides, phase by phase. */
export function compare(before: readonly Phases[], after: readonly Phases[]): Comparison {
  const lines: string[] = []
  const lost: string[] = []
  for (const title of after[0]?.keys() ?? []) {
    lines.push('', title)
    for (const name of Object.keys(QUANTITIES) as Quantity[]) {
      const collectSamples = (runs: readonly Phases[]) => runs.flatMap((phases) => phases.get(title)?.[name] ?? [])
      const [was, is] = [collectSamples(before), collectSamples(after)]
      if (was.length === 0) continue
      const [middleBefore, middleAfter] = [median(was), median(is)]
      const isAbove = Math.min(...is) > Math.max(...was)
      const isLost = isAbove && middleAfter > middleBefore * ALIKE && middleAfter - middleBefore > NOTHING[name]
      const phases = `${was.join(' ')} | ${is.join(' ')}`
      lines.push(
        `  ${name.padEnd(28)} ${phases.padEnd(44)} ${middleBefore === 0 ? '-' : (middleAfter / middleBefore).toFixed(2)}${isLost ? ' LOST' : ''}`,
      )
      if (isLost) lost.push(`${title}: ${name}`)
    }
  }
  return { lines, lost }
}

const here = resolve(import.meta.dirname, '../..')

/** Checks a commit out into a folder, with its dependencies. `remove` deletes the folder and the checkout. */
async function addCheckout(commit: string): Promise<{ readonly folder: string; remove(): Promise<void> }> {
  const parent = await mkdtemp(join(tmpdir(), 'portico-before-'))
  const folder = join(parent, 'checkout')
  const git = (...args: string[]) => execFileSync('git', args, { cwd: here, stdio: ['ignore', 'ignore', 'inherit'] })
  git('worktree', 'add', '--quiet', '--detach', folder, commit)
  const readLock = (root: string) => readFileSync(join(root, 'package-lock.json'), 'utf8')
  // A symbolic link won't do, because the bundler identifies files by their real path.
  if (readLock(folder) === readLock(here))
    await cp(join(here, 'node_modules'), join(folder, 'node_modules'), { recursive: true, verbatimSymlinks: true })
  else execFileSync('npm', ['ci', '--no-progress', '--loglevel=error'], { cwd: folder, stdio: 'inherit' })
  return {
    folder,
    async remove() {
      git('worktree', 'remove', '--force', folder)
      await rm(parent, { recursive: true, force: true })
    },
  }
}

/**
 * Runs the benchmark alternately in another checkout, or of another commit, and in this one; the order changes each
 * time. Prints each run's figures and the ratio of their medians, and returns whether this side has lost nothing.
 * @param args the arguments of each run
 */
export async function measureBeside(folder: string, runs: number, args: readonly string[]): Promise<boolean> {
  const other = existsSync(join(folder, 'bench/operator/run.ts'))
    ? { folder: resolve(folder), remove: async () => {} }
    : await addCheckout(folder)
  const measured = { before: [] as Phases[], after: [] as Phases[] }
  try {
    for (let round = 0; round < runs; round += 1) {
      const sides = [
        ['before', other.folder],
        ['after', here],
      ] as const
      for (const [side, folder] of round % 2 === 0 ? sides : sides.toReversed()) {
        console.log(`run ${round + 1} of ${runs}, ${side}: ${folder}`)
        const { status, stdout } = spawnSync(process.execPath, [join(folder, 'bench/operator/run.ts'), ...args], {
          cwd: folder,
          // Both sides use the same API server.
          env: { ...process.env, K8S: kubernetesVersion() },
          encoding: 'utf8',
          maxBuffer: 1 << 28,
          stdio: ['ignore', 'pipe', 'inherit'],
        })
        if (status !== 0) throw new Error(`the benchmark failed in ${folder}:\n${stdout.slice(-4000)}`)
        measured[side].push(readPhases(stdout))
      }
    }
  } finally {
    await other.remove()
  }
  const { lines, lost } = compare(measured.before, measured.after)
  console.log(['', 'before | after, and the ratio of their medians', ...lines].join('\n'))
  console.log(lost.length === 0 ? '\nnothing is lost' : `\nlost:\n${lost.join('\n')}`)
  return lost.length === 0
}
