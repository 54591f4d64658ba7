/**
 * Set-up of the tests. Finds out what the tests need and the machine lacks, prints a plan, and carries it out one step
 * after another, the quick ones first. Each consumer only waits for its own need. A machine is set up once; later runs
 * only check.
 */
import { join } from 'node:path'
import { cacheFolder, removeUnfinished } from './cache.ts'
import { runLocked } from './lock.ts'
import type { Need } from './need.ts'
import {
  announcement,
  lackingByHand,
  type Machine,
  type Plan,
  packageNames,
  planFor,
  refusal,
  thisMachine,
} from './plan.ts'
import { run } from './program.ts'

/** Time between two lines of progress. */
const TELL_MS = 15_000
/** Time between two checks for the result of another set-up. */
const LOOK_MS = 2_000

/** An error for needs that only the user can install. */
export class OutOfReach extends Error {
  readonly lacking: readonly Need[]

  constructor(need: Need, lacking: readonly Need[]) {
    const names = lacking.map(({ name }) => name).join(' and ')
    super(lacking.includes(need) ? `there is no ${names}` : `${need.name} takes ${names}, and there is none`)
    this.lacking = lacking
  }
}

/** For each need, a promise that resolves when it is available, or rejects with the reason. */
export type Arrivals = ReadonlyMap<string, Promise<void>>

/** Provides these needs. Throws an Error that says what to do if it can't. */
export async function setUp(needs: readonly Need[], machine: Machine = thisMachine()): Promise<void> {
  const refused = refusal(planFor(needs, machine), machine)
  if (refused) throw new Error(refused)
  const outcomes = await Promise.allSettled(bring(needs, machine).values())
  const failed = outcomes.filter((outcome) => outcome.status === 'rejected')
  if (failed.length > 0) throw new Error([...new Set(failed.map(({ reason }) => (reason as Error).message))].join('\n'))
}

/** Starts to provide these needs; the failure of one does not stop the others. */
export function bring(needs: readonly Need[], machine: Machine = thisMachine()): Arrivals {
  const arrivals = new Map<string, Promise<void>>()
  const waited = new Map<Need, PromiseWithResolvers<void>>()
  for (const need of needs) {
    const byHand = lackingByHand(need, machine)
    const arrival = Promise.withResolvers<void>()
    arrivals.set(need.name, arrival.promise)
    // A rejection that nobody awaits is not an error.
    arrival.promise.catch(() => {})
    if (need.present()) arrival.resolve()
    else if (byHand.length > 0) arrival.reject(new OutOfReach(need, byHand))
    else waited.set(need, arrival)
  }
  if (waited.size > 0)
    void bringAll(waited, machine).catch((error: unknown) => {
      for (const { reject } of waited.values()) reject(error)
    })
  return arrivals
}

/** Waits for all of them; throws if one fails. */
async function bringAll(waited: ReadonlyMap<Need, PromiseWithResolvers<void>>, machine: Machine): Promise<void> {
  const needs = [...waited.keys()]
  const settle = (need: Need, error?: Error) => (error ? waited.get(need)?.reject(error) : waited.get(need)?.resolve())
  let looks: NodeJS.Timeout | undefined
  const reportWaiting = () => {
    console.log('Set-up: another one is at work; waiting for its end')
    looks = setInterval(() => {
      for (const need of needs) if (need.make && need.present()) settle(need)
    }, LOOK_MS)
  }
  await runLocked(join(cacheFolder(), 'setup.lock'), reportWaiting, async () => {
    clearInterval(looks)
    // The previous holder of the lock may have done some or all of it.
    const plan = planFor(needs, machine)
    for (const need of needs) if (![...plan.made, ...plan.installed].includes(need)) settle(need)
    if (plan.made.length + plan.installed.length === 0) return
    console.log(announcement(plan, machine))
    const started = performance.now()
    removeUnfinished()
    const isWhole = await doPlan(plan, machine, settle)
    removeUnfinished()
    console.log(`Set-up is ${isWhole ? 'done' : 'over, and something is missing'} (${formatElapsed(started)})`)
  }).finally(() => clearInterval(looks))
}

/** Prints whether everything is available. */
async function doPlan(plan: Plan, machine: Machine, settle: (need: Need, error?: Error) => void): Promise<boolean> {
  const failed = new Map<Need, Error>()
  const fail = (need: Need, error: Error) => {
    failed.set(need, error)
    settle(need, error)
  }
  const installing = await install(plan, machine).then(() => undefined, asError)
  for (const need of plan.installed) {
    if (need.present()) settle(need)
    else fail(need, installing ?? new Error(`the packages are installed, and still there is no ${need.name}`))
  }
  for (const need of plan.made) {
    const missing = need.by?.find((tool) => failed.has(tool))
    const error = missing ? failed.get(missing) : await runStep(need.name, need.make).then(() => undefined, asError)
    if (error) fail(need, error)
    else settle(need)
  }
  return failed.size === 0
}

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)))

const formatElapsed = (since: number) => formatTime((performance.now() - since) / 1000)

/** Returns minutes and seconds, such as `14:05`. */
export function formatTime(seconds: number): string {
  const whole = Math.round(seconds)
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`
}

/** Carries out one step, and prints its progress and result. */
async function runStep(name: string, work: Need['make']): Promise<void> {
  const started = performance.now()
  console.log(`→ ${name}`)
  let state = ''
  const timer = setInterval(() => console.log(`    ${formatElapsed(started)}  ${name}: ${state}`), TELL_MS)
  try {
    await work?.((now) => {
      state = now
    })
    console.log(`    ${formatElapsed(started)}  there is ${name}`)
  } catch (error) {
    console.log(`    ${formatElapsed(started)}  failed: ${name}: ${asError(error).message}`)
    throw error
  } finally {
    clearInterval(timer)
  }
}

async function install(plan: Plan, machine: Machine): Promise<void> {
  const packages = packageNames(plan, machine)
  if (packages.length === 0) return
  const apt = (progress: (state: string) => void, ...args: string[]) =>
    run(
      {
        program: 'apt-get',
        args: ['-o', 'DPkg::Lock::Timeout=300', ...args],
        env: { DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' },
      },
      (line) => {
        if (/^(Get|Hit|Unpacking|Setting up)/.test(line)) progress(line)
      },
    )
  await runStep(`Debian packages: ${packages.join(' ')}`, async (progress) => {
    await apt(progress, 'update')
    await apt(progress, 'install', '--yes', '--no-install-recommends', ...packages)
  })
}
