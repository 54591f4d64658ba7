/**
 * Runs the tests: long files each in its own process, short ones of one folder together (setup/runner/groups.ts).
 * `npm test -- registry gateway` runs the files whose path contains one of the words.
 *
 * Set-up runs at the same time; a file only waits for what it needs. Files that need something that only the user can
 * install do not run, and a line at the end says so; in CI (`CI=true`) that is a failure. Files that failed last time run
 * first (setup/runner/order.ts), and a failure is reported at once.
 */
import { availableParallelism } from 'node:os'
import { relative } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { removeAbandoned } from './secrets/scan.ts'
import { bring, formatTime, OutOfReach } from './setup/index.ts'
import { kubernetesVersion } from './setup/kubernetes.ts'
import { E2E_FILES, listNeeds } from './setup/needs.ts'
import { remedy, thisMachine } from './setup/plan.ts'
import { makeFor } from './setup/runner/bundle.ts'
import { Crowd } from './setup/runner/crowd.ts'
import { guessSeconds, keepLastRuns, type LastRun, readLastRuns } from './setup/runner/durations.ts'
import { groupTurns } from './setup/runner/groups.ts'
import {
  hasRoom,
  inOrder,
  listFiles,
  type Passed,
  secondsLeft,
  shownRest,
  type Turn,
  takeNext,
} from './setup/runner/order.ts'
import { endAll, type Result, runFiles } from './setup/runner/run-file.ts'
import { slowestLines } from './setup/runner/slowest.ts'
import { testFiles } from './setup/test-files.ts'

const FILES = process.env['TEST_FILES'] ?? 'test/**/*.test.ts'
const CORES = availableParallelism()
/** Number of files at a time, if the user sets it; by default as many as the cores have room for. */
const JOBS = process.env['TEST_JOBS'] === undefined ? undefined : Number(process.env['TEST_JOBS'])
const IS_CI = process.env['CI'] === 'true'
/** Whether each file has its own process. */
const IS_ALONE = process.env['TEST_ALONE'] === 'true'
/** For fewer files, a failure is shown sooner if each has its own process. */
const LEAST_FILES = 10
/** The number of lanes that take the longest files; one lane always takes the shortest. */
const LONG_LANES = Math.min(CORES, (JOBS ?? Number.POSITIVE_INFINITY) - 1)
/** Time between two lines of progress. */
const TELL_MS = 30_000
/** Time after which it is checked again whether another file may start. */
const AGAIN_MS = 500

const words = process.argv.slice(2)
const files = testFiles(words, FILES)
if (files.length === 0) {
  console.error(`no test file matches ${words.join(', ')}`)
  process.exit(1)
}

try {
  kubernetesVersion()
} catch (error) {
  console.error((error as Error).message)
  process.exit(1)
}

const started = performance.now()
const secondsSince = (since: number) => (performance.now() - since) / 1000
removeAbandoned()

const needs = new Map(files.map((file) => [file, listNeeds([file])]))
const machine = thisMachine()
// `.ci/run` continues with `make e2e`, whose set-up runs after that of the tests, beside them.
const later = process.env['TEST_E2E_NEXT'] === 'true' ? listNeeds(E2E_FILES) : []
// A test of this runner starts another runner.
delete process.env['TEST_E2E_NEXT']
const arrivals = bring(
  [...new Map([...needs.values(), later].flat().map((need) => [need.name, need])).values()],
  machine,
)

/** The result of each need: available, or the reason why not. A pending need has no entry. */
const come = new Map<string, true | Error>()
const allCame = Promise.all(
  arrivals.entries().map(([name, arrival]) =>
    arrival.then(
      () => come.set(name, true),
      (error: Error) => come.set(name, error),
    ),
  ),
)
const nameNeeds = (turn: Turn) => listFiles(turn).flatMap((file) => (needs.get(file) ?? []).map(({ name }) => name))
const listOutcomes = (turn: Turn) => nameNeeds(turn).map((name) => come.get(name))

function isReady(turn: Turn): boolean {
  const outcomes = listOutcomes(turn)
  return outcomes.some((outcome) => outcome instanceof Error) || outcomes.every((outcome) => outcome === true)
}

/** Waits until one more need of a waiting file is available, or has failed. */
async function nextArrival(): Promise<void> {
  const awaited = new Set(waiting.flatMap(nameNeeds))
  const open = [...awaited].filter((name) => !come.has(name))
  await Promise.race(open.map((name) => arrivals.get(name)?.catch(() => {})))
  // `come` is updated one turn later.
  await new Promise(setImmediate)
}

const lastRuns = readLastRuns()
function makeTurn(file: string): Turn {
  const { seconds = guessSeconds(file, needs.get(file) ?? []), cpu, hasFailed = false } = lastRuns[file] ?? {}
  return { file, seconds, hasFailed, ...(cpu === undefined ? {} : { share: cpu / seconds }) }
}
const groupShort = (turns: readonly Turn[]): readonly Turn[] =>
  IS_ALONE || files.length < LEAST_FILES ? turns : groupTurns(turns, (file) => nameNeeds(makeTurn(file)).join())
const waiting = inOrder(groupShort(files.map(makeTurn)))
const running = new Map<Turn, number>()
const results: Result[] = []
const ended: Passed[] = []
/** Files that did not run, by what the user would have to install. */
const notRun = new Map<string, { readonly remedy: string; readonly files: string[] }>()

await makeFor(files)

function tell(result: Result): void {
  results.push(result)
  const name = relative('test', result.file)
  const line = `${result.failed ? 'FAIL' : 'ok  '} ${name} (${result.passed} passed, ${result.seconds.toFixed(1)} s)`
  console.log(result.failed ? `${line}: ${result.verdict}\n${result.output.trimEnd()}\n` : line)
}

async function take(turn: Turn): Promise<void> {
  const missing = listOutcomes(turn).filter((outcome) => outcome instanceof Error)
  if (missing.length > 0) {
    for (const file of listFiles(turn)) leaveOut(file, missing)
    return
  }
  const since = performance.now()
  running.set(turn, since)
  const told = await runFiles(listFiles(turn))
  running.delete(turn)
  const left = listFiles(turn).slice(told.length)
  if (left.length === 0) ended.push({ expected: turn.seconds, passed: secondsSince(since) })
  told.forEach(tell)
  if (left.length > 0) waiting.splice(0, waiting.length, ...inOrder([...waiting, ...groupShort(left.map(makeTurn))]))
}

/** A file that can't run counts as failed, unless only the user can install what it needs and this is not CI. */
function leaveOut(file: string, missing: readonly Error[]): void {
  const outOfReach = missing.filter((error) => error instanceof OutOfReach)
  if (IS_CI || outOfReach.length < missing.length) {
    const why = missing.map(({ message }) => message)
    const verdict = `set-up: ${why.map((text) => text.split('\n')[0]).join('; ')}`
    tell({ file, passed: 0, failed: 1, seconds: 0, cpu: 0, output: why.join('\n'), verdict })
    return
  }
  for (const need of new Set(outOfReach.flatMap(({ lacking }) => lacking))) {
    const others = notRun.get(need.name)?.files ?? []
    notRun.set(need.name, { remedy: remedy(need, machine), files: [...others, file] })
  }
}

/** The running files that were taken from the longest. */
const long = new Set<Turn>()
let mostAtOnce = 0

const crowd = new Crowd()
const hasPlace = (atWork: readonly Turn[]) =>
  JOBS === undefined ? hasRoom(atWork, CORES, 3 * CORES + 1, crowd.size) : atWork.length < JOBS

async function workThrough(): Promise<void> {
  const atWork = new Map<Turn, Promise<void>>()
  // The rest of a group in which a file has failed comes back.
  while (waiting.length > 0 || atWork.size > 0) {
    const room = waiting.length > 0 && hasPlace([...atWork.keys()])
    const turn = room ? takeNext(waiting, isReady, long.size < LONG_LANES) : undefined
    if (turn === undefined) {
      // A crowd may disperse before a file ends.
      const more = room ? nextArrival() : delay(AGAIN_MS, undefined, { ref: false })
      await Promise.race([...atWork.values(), more])
      continue
    }
    if (long.size < LONG_LANES) long.add(turn)
    const taken = take(turn).then(() => {
      atWork.delete(turn)
      long.delete(turn)
    })
    atWork.set(turn, taken)
    mostAtOnce = Math.max(mostAtOnce, atWork.size)
  }
}

const keep = () =>
  keepLastRuns(
    Object.fromEntries(
      results
        .filter(({ verdict }) => !verdict.startsWith('set-up: '))
        .map(({ file, seconds, cpu, failed }): [string, LastRun] => [
          file,
          { seconds, hasFailed: failed > 0, ...(cpu === undefined ? {} : { cpu }) },
        ]),
    ),
  )
process.on('exit', () => {
  endAll()
  keep()
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1))

const countLeftOut = () => new Set(notRun.values().flatMap(({ files: left }) => left)).size

const telling = setInterval(() => {
  const atWork = [...running].map(([{ seconds }, since]) => ({ expected: seconds, passed: secondsSince(since) }))
  const failures = results.filter(({ failed }) => failed > 0).length
  const rest = shownRest(secondsLeft(waiting, atWork, ended, atWork.length))
  const setUp = come.size < arrivals.size ? ', set-up is at work' : ''
  console.log(
    `${results.length + countLeftOut()} of ${files.length} files, ${failures} of them failed, ${rest}${setUp}`,
  )
}, TELL_MS)

await workThrough()
clearInterval(telling)
await allCame

const sum = (by: (result: Result) => number) => results.reduce((all, result) => all + by(result), 0)
const passed = sum((result) => result.passed)
const failed = sum((result) => result.failed)
for (const line of slowestLines(results)) console.log(line)
console.log(`${results.length} files in ${formatTime(secondsSince(started))}, up to ${mostAtOnce} at a time`)
for (const result of results) if (result.failed) console.log(`failed: ${result.file} (${result.verdict})`)
for (const [name, { remedy: command, files: left }] of notRun) {
  const named = left.length > 3 ? `${left.length} files` : left.join(', ')
  console.log(`not run: ${named}, for want of ${name}: ${command}`)
}
if (results.length === 0) console.log('nothing could be tested')
console.log(`${passed} passed, ${failed} failed`)
process.exit(failed === 0 && results.length > 0 ? 0 : 1)
