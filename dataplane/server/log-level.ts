import { type Level, type Logger, pino } from 'pino'

/**
 * The level of a log, which changes while it is written: as a configuration has it, and `debug` for as long as somebody
 * wants to see more. Children of a log go by it as well, however long ago they were made.
 */
export class LogLevel {
  readonly #fixed: Level | undefined
  #configured: Level = 'info'
  #isDebugging = false

  /** @param fixed goes before what a configuration says */
  constructor(fixed?: Level) {
    this.#fixed = fixed
  }

  /** Takes the level of the configuration in force; undefined: `info`. */
  configure(level: Level = 'info'): void {
    this.#configured = level
  }

  /** Whether lines of this level (pino's number) are written. */
  writes(level: number): boolean {
    const now = this.#isDebugging ? 'debug' : (this.#fixed ?? this.#configured)
    return level >= (pino.levels.values[now] as number)
  }

  /** Switches `debug` on, or off again. The log says so. */
  switchDebug(log: Logger): void {
    const goesOn = !this.#isDebugging
    // Either line is written while it is on.
    this.#isDebugging = true
    log.info(goesOn ? 'debugging is switched on' : 'debugging is switched off')
    this.#isDebugging = goesOn
  }
}
