/**
 * Chooses short test files that run one after another in one process, because loading the modules that they share takes
 * longer than most of them.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { withImports } from '../imports.ts'
import type { Turn } from './order.ts'

/** A longer file gains little, and its processes are counted for it alone. */
const LONGEST_SECONDS = 12
/** A group that takes longer would keep a failure from being seen. */
const MOST_SECONDS = 30
const MOST_FILES = 15

/**
 * What changes the state of the process, or measures the process, for the files behind it: environment, working folder,
 * exit, listeners, clock, memory, dispatchers.
 */
const OF_THE_PROCESS = new RegExp(
  [
    String.raw`process\.(chdir|umask|exit|kill|title|argv|on|once|removeAll|emit|memoryUsage|cpuUsage|resourceUsage)\b`,
    String.raw`process\.env(\[[^\]]+\]|\.\w+) \??\??=[^=]`,
    String.raw`delete process\.env|Object\.assign\((process|globalThis)|globalThis\.\w+ =`,
    String.raw`\bgc\(|setFlagsFromString|getHeap|Date\.now = |stopClock|setGlobalDispatcher|registerHooks`,
    String.raw`process\.std(out|err)\.write|getActiveResourcesInfo|uvu/run`,
  ].join('|'),
)

const root = join(import.meta.dirname, '../../..')
const touches = new Map<string, boolean>()

function touchesProcess(file: string): boolean {
  const known = touches.get(file)
  if (known !== undefined) return known
  const found = OF_THE_PROCESS.test(readFileSync(join(root, file), 'utf8'))
  touches.set(file, found)
  return found
}

/** Tells whether a file may share its process: neither it nor what it imports from test/ touches the process itself. */
export function mayShare(file: string): boolean {
  const own = withImports([file])
    .values()
    .filter((one) => one === file || /^test\/(?!setup\/|secrets\/)/.test(one))
  return !own.some(touchesProcess)
}

/** The room of a file: files of one room load much the same modules. */
const findRoom = (file: string) => file.split('/').slice(0, -1).slice(0, 3).join('/')

/**
 * Puts turns of short files of one room that need the same into groups. A file that failed last time stays alone.
 *
 * @param needsOf returns the names of what a file needs
 */
export function groupTurns(
  turns: readonly Turn[],
  needsOf: (file: string) => string,
  canShare: (file: string) => boolean = mayShare,
): Turn[] {
  const isShort = ({ file, seconds, hasFailed }: Turn) => !hasFailed && seconds <= LONGEST_SECONDS && canShare(file)
  const short = turns.filter(isShort)
  const rooms = Map.groupBy(short, ({ file }) => `${findRoom(file)} ${needsOf(file)}`)
  return [...turns.filter((turn) => !short.includes(turn)), ...rooms.values().flatMap(makeGroups)]
}

function makeGroups(turns: readonly Turn[]): Turn[] {
  const groups: Turn[][] = []
  let seconds = Number.POSITIVE_INFINITY
  for (const turn of turns) {
    seconds += turn.seconds
    if (seconds > MOST_SECONDS || (groups.at(-1)?.length ?? 0) === MOST_FILES) {
      groups.push([])
      seconds = turn.seconds
    }
    groups.at(-1)?.push(turn)
  }
  return groups.map(joinTurns)
}

function joinTurns(turns: readonly Turn[]): Turn {
  const [first, ...others] = turns as [Turn, ...Turn[]]
  if (others.length === 0) return first
  const seconds = turns.reduce((all, turn) => all + turn.seconds, 0)
  const isKnown = turns.every(({ share }) => share !== undefined)
  const share = turns.reduce((all, turn) => all + (turn.share ?? 0) * turn.seconds, 0) / seconds
  const names = { file: first.file, others: others.map(({ file }) => file) }
  return { ...names, seconds, hasFailed: false, ...(isKnown && { share }) }
}
