import { parseAddress } from '../../dataplane/server/listen/address.ts'
import { type Given, type Io, UsageError } from '../command.ts'

/** The address that an option names, where it is given. Throws a UsageError where it is none. */
export function address(given: Given, option: string): string | undefined {
  const text = given.text(option)
  if (text === undefined) return undefined
  try {
    parseAddress(text)
  } catch (error) {
    throw new UsageError(`--${option}: ${(error as Error).message}`)
  }
  return text
}

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
