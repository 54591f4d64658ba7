/** The order in which test files run, and how long the rest of them takes. */

/** A test file as far as its turn depends on it. */
export interface Turn {
  readonly file: string
  /** By which it is expected to take. */
  readonly seconds: number
  /** The share of a core that it is expected to use; a half where nobody knows. */
  readonly share?: number
  readonly hasFailed: boolean
}

/** Those that failed last time first, then the shortest. */
export const inOrder = (turns: readonly Turn[]): Turn[] =>
  turns.toSorted(
    (one, other) =>
      Number(other.hasFailed) - Number(one.hasFailed) || one.seconds - other.seconds || compare(one, other),
  )

const compare = (one: Turn, other: Turn) => (one.file < other.file ? -1 : 1)

/**
 * Takes the next one that is ready out of those that wait, which are in order; undefined where none is. Some
 * lanes take the longest, so that no long one is left for the end: the lanes meet at those in the middle.
 */
export function takeNext(waiting: Turn[], isReady: (turn: Turn) => boolean, isLongLane: boolean): Turn | undefined {
  const failed = waiting.findIndex((turn) => turn.hasFailed && isReady(turn))
  const next = failed >= 0 ? failed : isLongLane ? waiting.findLastIndex(isReady) : waiting.findIndex(isReady)
  return next >= 0 ? waiting.splice(next, 1)[0] : undefined
}

/** What files use on average: half of a core; the rest of the time they wait. */
const USUAL_SHARE = 0.5
/** Beyond that share of all cores what is at work would be slowed down by more. */
const FULL = 0.85

/**
 * Whether there is room for one more file beside those at work: always below the number of cores, and up to `most` while
 * they leave cores free. Files that mostly wait leave room for more of them.
 */
export function hasRoom(atWork: readonly Turn[], cores: number, most: number): boolean {
  if (atWork.length < Math.min(cores, most)) return true
  const used = atWork.reduce((all, { share = USUAL_SHARE }) => all + share, 0)
  return atWork.length < most && used < cores * FULL
}

/** Something of a run, by the seconds that were expected and those that have passed. */
export interface Passed {
  readonly expected: number
  readonly passed: number
}

/** From here on the expectations are taken in relation to what files took. */
const ENOUGH = 10

/** Seconds until all have ended. */
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
  // One that is at work is on one lane alone.
  return Math.max(work / lanes, ...rests)
}

/** People's words for a rest of time. */
export const shownRest = (seconds: number): string =>
  seconds < 90 ? 'about a minute left' : `about ${Math.round(seconds / 60)} minutes left`
