const CONTEXT = 3
/** The largest table of common lines, in cells; beyond it, the changed part is shown as a whole. */
const MOST_CELLS = 4_000_000

/** A line of both texts, of the first alone (`-`) or of the second alone (`+`). */
type Line = readonly [sign: ' ' | '-' | '+', text: string]

/** Counts the common lines of the rests of two lists, by the indexes where these begin. */
function countCommon(before: readonly string[], after: readonly string[]): (row: number, column: number) => number {
  const width = after.length + 1
  const common = new Uint32Array((before.length + 1) * width)
  const at = (row: number, column: number) => common[row * width + column] as number
  for (let row = before.length - 1; row >= 0; row--)
    for (let column = after.length - 1; column >= 0; column--)
      common[row * width + column] =
        before[row] === after[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1))
  return at
}

/** Returns removed and added lines, between the longest list of lines that both have. */
function diffLines(before: readonly string[], after: readonly string[]): Line[] {
  if ((before.length + 1) * (after.length + 1) > MOST_CELLS)
    return [...before.map((text): Line => ['-', text]), ...after.map((text): Line => ['+', text])]
  const common = countCommon(before, after)
  const lines: Line[] = []
  let row = 0
  let column = 0
  while (row < before.length && column < after.length) {
    const [old, next] = [before[row] as string, after[column] as string]
    if (old === next) lines.push([' ', old])
    else if (common(row + 1, column) >= common(row, column + 1)) lines.push(['-', old])
    else lines.push(['+', next])
    const [sign] = lines.at(-1) as Line
    if (sign !== '+') row++
    if (sign !== '-') column++
  }
  for (const text of before.slice(row)) lines.push(['-', text])
  for (const text of after.slice(column)) lines.push(['+', text])
  return lines
}

/** Returns all lines of both texts in order; equal lines at the beginning and the end need no table. */
function compareLines(before: readonly string[], after: readonly string[]): Line[] {
  const shorter = Math.min(before.length, after.length)
  let head = 0
  while (head < shorter && before[head] === after[head]) head++
  let tail = 0
  while (tail < shorter - head && before.at(-1 - tail) === after.at(-1 - tail)) tail++
  const same = (texts: readonly string[]) => texts.map((text): Line => [' ', text])
  return [
    ...same(before.slice(0, head)),
    ...diffLines(before.slice(head, before.length - tail), after.slice(head, after.length - tail)),
    ...same(before.slice(before.length - tail)),
  ]
}

/** Returns the ranges of lines that are shown: changes with their context, joined if they meet. */
function findHunks(lines: readonly Line[]): (readonly [from: number, to: number])[] {
  const hunks: [number, number][] = []
  lines.forEach(([sign], index) => {
    if (sign === ' ') return
    const last = hunks.at(-1)
    const to = Math.min(index + CONTEXT + 1, lines.length)
    if (last && index - CONTEXT <= last[1]) last[1] = to
    else hunks.push([Math.max(index - CONTEXT, 0), to])
  })
  return hunks
}

const splitLines = (text: string) => (text === '' ? [] : text.replace(/\n$/, '').split('\n'))

function range(lines: readonly Line[], from: number, to: number, other: '-' | '+'): string {
  const before = lines.slice(0, from).filter(([sign]) => sign !== other).length
  const count = lines.slice(from, to).filter(([sign]) => sign !== other).length
  return `${count === 0 ? before : before + 1},${count}`
}

/** Returns the differences of two texts in the format of `diff -u`, without its two lines of names. */
export function unified(before: string, after: string): string {
  const lines = compareLines(splitLines(before), splitLines(after))
  return findHunks(lines)
    .map(([from, to]) => {
      const title = `@@ -${range(lines, from, to, '+')} +${range(lines, from, to, '-')} @@\n`
      return (
        title +
        lines
          .slice(from, to)
          .map(([sign, text]) => `${sign}${text}\n`)
          .join('')
      )
    })
    .join('')
}
