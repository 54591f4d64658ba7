import { parseAddress } from '../../dataplane/server/listen/address.ts'
import { type Given, UsageError } from '../command.ts'

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
