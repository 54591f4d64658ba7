import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { importReader } from '../../test/setup/imports.ts'
import { applyMutant, type Mutant, mutantIn } from './mutants.ts'

/** A test file that runs longer than this has detected the mutant. */
const HANG_MS = 120_000

export interface Judgement {
  readonly by: string | undefined
  /** Test files that ran, and the number of others that reach the mutant's file. */
  readonly ran: readonly string[]
  readonly left: number
  /** Test files that fail without the mutant, too. */
  readonly broken: readonly string[]
}

/** Modules are reached by imports, workers by URL. */
const REACHED = /['"](\.[^'"\s]+\.ts)['"]/g

/** A copy of a checkout, without files that Git ignores, in which sources are mutated; `using` removes it. */
export class Checkout {
  readonly #folder = mkdtempSync(join(tmpdir(), 'portico-mutations-'))
  readonly #findJudges: (file: string) => readonly string[]
  readonly #passes = new Map<string, boolean>()
  readonly #runs: (test: string) => boolean
  #stop: (() => void) | undefined

  /** @param runs whether a test file has what it needs on this machine */
  constructor(from: string, runs: (test: string) => boolean) {
    this.#runs = runs
    const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
      cwd: from,
      encoding: 'utf8',
      maxBuffer: 64 * 1024 * 1024,
    })
    for (const file of listed.split('\0').filter((name) => name !== '' && existsSync(join(from, name))))
      cpSync(join(from, file), join(this.#folder, file), { recursive: true })
    symlinkSync(resolve(from, 'node_modules'), join(this.#folder, 'node_modules'))
    this.#findJudges = readJudges(this.#folder)
  }

  text(file: string): string | undefined {
    const path = join(this.#folder, file)
    return existsSync(path) ? readFileSync(path, 'utf8') : undefined
  }

  /**
   * Runs test files that reach a mutant until one fails, at most `most`. Returns undefined if this checkout lacks the
   * mutant's place. `source`: the text of the mutant's file.
   */
  async judge(source: string, mutant: Mutant, most: number): Promise<Judgement | undefined> {
    const original = this.text(mutant.file)
    const own = original === undefined ? undefined : mutantIn(original, source, mutant)
    if (original === undefined || own === undefined) return undefined
    const path = join(this.#folder, mutant.file)
    const all = this.#findJudges(mutant.file)
    const able = all.filter(this.#runs).slice(0, most)
    const ran: string[] = []
    const broken: string[] = []
    for (const test of able) {
      ran.push(test)
      writeFileSync(path, applyMutant(original, own))
      const isCaught = !(await this.#run(test))
      writeFileSync(path, original)
      if (!isCaught) continue
      if (await this.#passesWithout(test)) return { by: test, ran, left: all.length - ran.length, broken }
      broken.push(test)
    }
    return { by: undefined, ran, left: all.length - ran.length, broken }
  }

  async #passesWithout(test: string): Promise<boolean> {
    const known = this.#passes.get(test) ?? (await this.#run(test))
    this.#passes.set(test, known)
    return known
  }

  async #run(test: string): Promise<boolean> {
    const env = { ...process.env, TEST_FILES: test, TEST_HANG_MS: String(HANG_MS), TEST_LINGER_MS: '20000' }
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', 'test/run.ts'], {
      cwd: this.#folder,
      env,
      stdio: 'ignore',
    })
    this.#stop = () => child.kill('SIGTERM')
    const [code] = await once(child, 'close')
    this.#stop = undefined
    return code === 0
  }

  [Symbol.dispose](): void {
    this.#stop?.()
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** Returns the files that a test starts as processes: by their names, or by the command. */
function findStarted(text: string, file: string): readonly string[] {
  const beside = [...text.matchAll(/['"]([\w-]+\.ts)['"]/g)].map(([, name]) => join(dirname(file), name as string))
  return /\bbin\/portico\b|\bcli\/main\.ts\b/.test(text) ? [...beside, 'cli/main.ts'] : beside
}

/** Makes a function that returns, for a file, the test files of a checkout that reach it, the closest first. */
export function readJudges(root: string): (file: string) => readonly string[] {
  const reach = importReader(root, REACHED, findStarted)
  const reached = globSync('test/**/*.test.ts', { cwd: root })
    .sort()
    .map((test) => ({ test, order: [...reach([test])] }))
  return (file) =>
    reached
      .map(({ test, order }) => ({ test, shared: sharedFolders(test, file), distance: order.indexOf(file) }))
      .filter(({ distance }) => distance >= 0)
      .sort((one, other) => other.shared - one.shared || one.distance - other.distance)
      .map(({ test }) => test)
}

/** Counts the equal leading parts of the paths: test/operator/render/pod.test.ts mirrors operator/render/pod.ts. */
function sharedFolders(test: string, file: string): number {
  const parts = test
    .replace(/^test\//, '')
    .replace(/\.test\.ts$/, '')
    .split('/')
  const own = file.replace(/\.ts$/, '').split('/')
  const differing = own.findIndex((part, index) => part !== parts[index])
  return differing < 0 ? own.length : differing
}
