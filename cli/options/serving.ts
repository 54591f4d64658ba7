import { parseAddress } from '../../dataplane/server/listen/address.ts'
import { type Given, type Io, UsageError } from '../command.ts'

export function readAddress(given: Given, option: string): string | undefined {
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

/** Returns PORTICO_LOG_LEVEL, if set. Throws a UsageError for an unknown level. */
export function readGivenLogLevel(io: Io): LogLevel | undefined {
  const given = io.env['PORTICO_LOG_LEVEL']
  if (!given) return undefined
  const level = levels.find((name) => name === given)
  if (!level) throw new UsageError(`PORTICO_LOG_LEVEL ${given}: takes one of ${levels.join(', ')}`)
  return level
}

/** Returns PORTICO_LOG_LEVEL, else `info`. */
export const readLogLevel = (io: Io): LogLevel => readGivenLogLevel(io) ?? 'info'

/** Tells whether `HOST:PORT` names a loopback address. */
export function isLoopback(text: string): boolean {
  const { host = '' } = parseAddress(text)
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}
