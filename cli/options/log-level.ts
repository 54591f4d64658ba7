import { type Io, UsageError } from '../command.ts'

const levels = ['debug', 'info', 'warn', 'error'] as const
type LogLevel = (typeof levels)[number]

/** PORTICO_LOG_LEVEL, where it is set. Throws a UsageError on a level that there isn't. */
export function givenLogLevel(io: Io): LogLevel | undefined {
  const given = io.env['PORTICO_LOG_LEVEL']
  if (!given) return undefined
  const level = levels.find((name) => name === given)
  if (!level) throw new UsageError(`PORTICO_LOG_LEVEL ${given}: takes one of ${levels.join(', ')}`)
  return level
}

/** PORTICO_LOG_LEVEL, else `info`. */
export const logLevel = (io: Io): LogLevel => givenLogLevel(io) ?? 'info'
