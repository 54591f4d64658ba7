import { type DestinationStream, type Level, type Logger, pino } from 'pino'
import { REDACTED, withoutCredentials, withoutUrlSecrets } from '../config/check/url.ts'

interface LogOptions {
  readonly name: string
  readonly level: LogLevel | Level
  readonly base?: Readonly<Record<string, string>>
  readonly destination?: DestinationStream
}

const SECRET_FIELDS = new Set([
  'authorization',
  'Authorization',
  'proxy-authorization',
  'cookie',
  'set-cookie',
  'token',
  'accessToken',
  'access_token',
  'refreshToken',
  'refresh_token',
  'idToken',
  'id_token',
  'clientSecret',
  'client_secret',
  'secret',
  'password',
  'passphrase',
  'privateKey',
  'assertion',
  'code_verifier',
])
/** Matches such a field in a line of JSON. Inside texts, quotation marks follow a backslash. */
const SECRET_FIELD = new RegExp(`"(?:${[...SECRET_FIELDS].join('|')})":`)

/**
 * Redacts the secret fields of all objects in a line. Only lines that have any are parsed: pino’s own redaction was a
 * tenth of the operator's processor time.
 */
const withoutSecretFields = (line: string): string =>
  SECRET_FIELD.test(line)
    ? `${JSON.stringify(JSON.parse(line, (key, value) => (SECRET_FIELDS.has(key) ? REDACTED : value)))}\n`
    : line

/** Returns the trace id in a `traceparent` of our own making, as a field of log lines. */
export const traceIdOf = (traceparent: string | undefined): { readonly traceId?: string } =>
  traceparent === undefined ? {} : { traceId: traceparent.slice(3, 35) }

/**
 * Creates a log of JSON lines. Secrets are redacted by field name and by pattern; URLs lose user name, password and
 * query.
 */
export function createLog({ name, level, base, destination }: LogOptions): Logger {
  return pino(
    {
      name,
      level: level instanceof LogLevel ? 'trace' : level,
      base: { ...base },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      hooks: {
        streamWrite: (line) => withoutUrlSecrets(withoutCredentials(withoutSecretFields(line))),
        ...(level instanceof LogLevel && {
          logMethod(args, write, of) {
            if (level.writes(of)) write.apply(this, args)
          },
        }),
      },
    },
    destination ?? pino.destination({ dest: 2, sync: true }),
  )
}

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
