import { type Io, UsageError } from './command.ts'

const levels = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof levels)[number]

/** PORTICO_LOG_LEVEL, else `info`. Throws a UsageError on a level that there isn't. */
export function logLevel(io: Io): LogLevel {
  const given = io.env['PORTICO_LOG_LEVEL'] || 'info'
  const level = levels.find((name) => name === given)
  if (!level) throw new UsageError(`PORTICO_LOG_LEVEL ${given}: takes one of ${levels.join(', ')}`)
  return level
}
