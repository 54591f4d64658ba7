import { parseArgs } from 'node:util'

/** The parts of the process that a command uses. Only code here and below reads the environment. */
export interface Io {
  /** Writes to standard output unchanged. */
  out(text: string): void
  /** Writes one line to standard error. */
  err(line: string): void
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stop: AbortSignal
}

/** Settles when the signal is aborted, at once if it is already. */
export const waitForAbort = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })

export interface Option {
  readonly type: 'string' | 'boolean'
  readonly short?: string
  readonly multiple?: boolean
  /** The word for the value in the help text; the values, if only these are accepted. */
  readonly value?: string | readonly string[]
  readonly default?: string
  readonly description: string
}

export interface Command {
  readonly name: string
  readonly synopsis: string
  readonly about: string
  readonly options: Readonly<Record<string, Option>>
  /** Most arguments besides options; absent: any number. */
  readonly mostOperands?: number
  /** Returns the exit code: 0 success, 1 a finding or failure. Throws a UsageError on wrong usage. */
  run(given: Given, io: Io): Promise<number>
}

export interface Program {
  readonly name: string
  readonly about: string
  readonly commands: Readonly<Record<string, { readonly summary: string; load(): Promise<{ command: Command }> }>>
}

export interface Given {
  readonly positionals: readonly string[]
  text(option: string): string | undefined
  texts(option: string): readonly string[]
  flag(option: string): boolean
}

/** An error of usage: exit 2, with the message and a hint at the help text. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

const help: Option = { type: 'boolean', short: 'h', description: 'Shows this text.' }
const withHelp = (command: Command) => ({ ...command.options, help })

function checkChoices(command: Command, given: Given): void {
  for (const [name, { value }] of Object.entries(command.options)) {
    const chosen = given.text(name)
    if (typeof value === 'object' && chosen !== undefined && !value.includes(chosen)) {
      throw new UsageError(`--${name} ${chosen}: takes one of ${value.join(', ')}`)
    }
  }
}

/** Reads a command's arguments. Returns `help` if its help text is requested, even if the rest is wrong. */
export function readArguments(command: Command, argv: readonly string[]): Given | 'help' {
  if (argv.includes('--help') || argv.includes('-h')) return 'help'
  let parsed: { readonly values: Readonly<Record<string, unknown>>; readonly positionals: readonly string[] }
  try {
    parsed = parseArgs({ args: argv, options: withHelp(command), allowPositionals: true })
  } catch (error) {
    throw new UsageError(simplifyMessage(error as Error, Object.keys(withHelp(command))))
  }
  const { values, positionals } = parsed
  const given: Given = {
    positionals,
    text: (option) => values[option] as string | undefined,
    texts: (option) => [values[option] ?? []].flat() as string[],
    flag: (option) => values[option] === true,
  }
  checkChoices(command, given)
  const tooMany = positionals.slice(command.mostOperands ?? positionals.length)
  if (tooMany.length > 0) throw new UsageError(`too many arguments: ${tooMany.join(' ')}`)
  return given
}

/** Shortens the message of parseArgs: it explains `--` at length, and the first sentence states the problem. */
function simplifyMessage(error: Error, known: readonly string[]): string {
  const unknown = /^Unknown option '(-{1,2}[^']*)'/.exec(error.message)?.[1]
  if (unknown) return `unknown option ${unknown}; known are ${known.map((name) => `--${name}`).join(', ')}`
  return error.message.split(/\.\s|\n/)[0] ?? error.message
}

const formatOption = (name: string, { short, value, type }: Option) => {
  const word = typeof value === 'object' ? value.join('|') : (value ?? 'VALUE')
  return `${short ? `-${short}, ` : '    '}--${name}${type === 'string' ? ` ${word}` : ''}`
}

/** Returns the help text of a command of a program. */
export function formatHelp(command: Command, program: string): string {
  const rows = Object.entries(withHelp(command)).map(([name, option]) => {
    const fallback = option.default === undefined ? '' : ` Default: ${option.default}.`
    return [formatOption(name, option), `${option.description}${fallback}`]
  })
  const options = alignColumns(rows).join('\n')
  return `Usage: ${program} ${command.name} ${command.synopsis}\n\n${command.about}\n\nOptions:\n${options}\n`
}

/** Formats rows as lines of columns, each as wide as its widest cell. `indent` begins each line. */
export function alignColumns(rows: readonly (readonly string[])[], indent = '  '): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows.map((row) => `${indent}${row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')}`.trimEnd())
}
