import { type Level, type Logger, pino } from 'pino'

/**
 * The level of a log, which may change: that of the configuration, or `debug` while that is switched on. All children
 * follow it.
 */
export class LogLevel {
  readonly #fixed: Level | undefined
  #configured: Level = 'info'
  #isDebugging = false

  /** @param fixed takes precedence over the configuration */
  constructor(fixed?: Level) {
    this.#fixed = fixed
  }

  /** Sets the level of the configuration in force; undefined: `info`. */
  configure(level: Level = 'info'): void {
    this.#configured = level
  }

  /** Tells whether lines of this level (pino's number) are written. */
  writes(level: number): boolean {
    const now = this.#isDebugging ? 'debug' : (this.#fixed ?? this.#configured)
    return level >= (pino.levels.values[now] as number)
  }

  /** Switches `debug` on, or off again, and logs that. */
  switchDebug(log: Logger): void {
    const goesOn = !this.#isDebugging
    // Both lines are written while `debug` is on.
    this.#isDebugging = true
    log.info(goesOn ? 'debugging is switched on' : 'debugging is switched off')
    this.#isDebugging = goesOn
  }
}
