/** Determines the order of test files, and estimates the remaining time. */

/** The properties of a test file, or of a group of files, that determine its turn. */
export interface Turn {
  readonly file: string
  /** Files that run behind it in the same process. */
  readonly others?: readonly string[]
  /** The expected duration in seconds. */
  readonly seconds: number
  /** The expected share of a core; a half if unknown. */
  readonly share?: number
  readonly hasFailed: boolean
}

/** Returns the files of a turn in their order. */
export const listFiles = ({ file, others = [] }: Turn): readonly string[] => [file, ...others]

/** Sorts the files: those that failed last time first, then the shortest. */
export const inOrder = (turns: readonly Turn[]): Turn[] =>
  turns.toSorted(
    (one, other) =>
      Number(other.hasFailed) - Number(one.hasFailed) || one.seconds - other.seconds || compare(one, other),
  )

const compare = (one: Turn, other: Turn) => (one.file < other.file ? -1 : 1)

/**
 * Takes the next ready file out of the sorted list, or returns undefined if none is ready. Some lanes take the longest
 * file, so that no long one is left for the end; the lanes meet in the middle.
 */
export function takeNext(waiting: Turn[], isReady: (turn: Turn) => boolean, isLongLane: boolean): Turn | undefined {
  const failed = waiting.findIndex((turn) => turn.hasFailed && isReady(turn))
  const next = failed >= 0 ? failed : isLongLane ? waiting.findLastIndex(isReady) : waiting.findIndex(isReady)
  return next >= 0 ? waiting.splice(next, 1)[0] : undefined
}

/** The average file uses half of a core and waits for the rest of its time. */
const USUAL_SHARE = 0.5
/** Files up to this share mostly wait, and hardly slow down others. */
const WAITING = 0.3
/** The most files for each core that compute. */
const COMPUTING = 2
/** Above this share of all cores, another file would slow down the running ones. */
const FULL = 0.85
/** If more tasks for each core want to run, another file would only make all of them later. */
const CROWDED = 3

/**
 * Tells whether one more file may start: always if fewer run than there are cores, and up to `most` while the running
 * files leave cores free. Files that mostly wait leave room for more, but no more files compute at a time. On a slow or
 * busy machine files compute more than they did before, so the `crowd`, the tasks that want a processor now, counts, too.
 */
export function hasRoom(atWork: readonly Turn[], cores: number, most: number, crowd: number): boolean {
  if (atWork.length < Math.min(cores, most)) return true
  if (crowd > cores * CROWDED) return false
  const used = atWork.reduce((all, { share = USUAL_SHARE }) => all + share, 0)
  const computing = atWork.filter(({ share = USUAL_SHARE }) => share > WAITING).length
  return atWork.length < most && computing < cores * COMPUTING && used < cores * FULL
}

/** Expected and elapsed seconds of a part of a run. */
export interface Passed {
  readonly expected: number
  readonly passed: number
}

/** From this number of seconds on, the estimate is scaled by the actual durations. */
const ENOUGH = 10

/** Returns the estimated seconds until all files have ended. */
export function secondsLeft(
  waiting: readonly Turn[],
  running: readonly Passed[],
  ended: readonly Passed[],
  lanes: number,
): number {
  const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0)
  const pace =
    ended.length < ENOUGH ? 1 : sum(ended.map(({ passed }) => passed)) / sum(ended.map(({ expected }) => expected))
  const rests = running.map(({ expected, passed }) => Math.max(0, expected * pace - passed))
  const work = sum(waiting.map(({ seconds }) => seconds * pace)) + sum(rests)
  // A running file occupies only one lane.
  return Math.max(work / Math.max(1, lanes), ...rests)
}

/** Formats a remaining time for people. */
export const shownRest = (seconds: number): string =>
  seconds < 90 ? 'about a minute left' : `about ${Math.round(seconds / 60)} minutes left`
