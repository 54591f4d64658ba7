/** Reads tables of scenarios, each with the tests that cover it. */

export interface Scenario {
  readonly scenario: string
  /** The path below `test/`; `none` if there is no test. */
  readonly file: string
  /** The title as in the file, including placeholders of templates; without a test, the reason. */
  readonly title: string
  /** The program or place against which it runs. */
  readonly counterpart: string
}

/** The last column has a name of the table's own. */
const COLUMNS = /^scenario \| test \| title \| [^|]+$/i
const NONE = 'none'

/** Returns the lines of all tables of a text that have these columns. */
export function readScenarios(text: string): readonly Scenario[] {
  const found: Scenario[] = []
  let isInTable = false
  for (const line of text.split('\n')) {
    const cells = splitCells(line)
    if (cells === undefined) isInTable = false
    else if (COLUMNS.test(cells.join(' | '))) isInTable = true
    else if (isInTable && !cells.every((cell) => /^:?-+:?$/.test(cell))) {
      const [scenario = '', file = '', title = '', counterpart = ''] = cells
      found.push({ scenario, file, title, counterpart })
    }
  }
  return found
}

/** Splits a line of a table into cells; undefined if it is none. `\|` is a bar within a cell. */
function splitCells(line: string): readonly string[] | undefined {
  if (!/^\|.*\|$/.test(line.trim())) return undefined
  return line
    .trim()
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'))
}

/** Checks the lines of a table. `read` returns the text of a file below `test/`, undefined if there is none. */
export function wrongScenarios(
  scenarios: readonly Scenario[],
  read: (file: string) => string | undefined,
): readonly string[] {
  const texts = new Map<string, string | undefined>()
  const readText = (file: string) => {
    if (!texts.has(file)) texts.set(file, read(file))
    return texts.get(file)
  }
  return scenarios.flatMap((one, index) => {
    const problem = index === 0 && one.scenario === '' ? 'the first line has no scenario' : findProblem(one, readText)
    return problem === undefined ? [] : [`line ${index + 1} (${one.scenario || one.title}): ${problem}`]
  })
}

function findProblem(
  { file, title, counterpart }: Scenario,
  readText: (file: string) => string | undefined,
): string | undefined {
  if (title === '') return 'no title'
  if (file === NONE) return undefined
  if (counterpart === '') return 'no counterpart'
  const text = readText(file)
  if (text === undefined) return `there is no test/${file}`
  return isTitleIn(text, title) ? undefined : `test/${file} has no test of the title ${JSON.stringify(title)}`
}

/** Tells whether a test has this title: as its first argument, or from the head of a table line. A suite may be `run`. */
function isTitleIn(text: string, title: string): boolean {
  const before = /\btest\(\s*[a-z]\w*,/.test(text) ? /(?:\b(?:test|run)\(|\[)\s*$/ : /\b(?:test|run)\(\s*$/
  for (const quote of ["'", '"', '`']) {
    const quoted = quote + title + quote
    for (let at = text.indexOf(quoted); at >= 0; at = text.indexOf(quoted, at + 1))
      if (before.test(text.slice(Math.max(0, at - 40), at))) return true
  }
  return false
}
