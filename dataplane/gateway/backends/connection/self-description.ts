import { isObject } from '../../../../crds/shared/json.ts'
import { BackendFailure } from './failure.ts'

/** JSON text of a server's capabilities, which are kept with each session that is open with it. */
const MOST_CAPABILITIES = 64 * 1024
/** The same where a session is given others than the gateway's own. */
const MOST_OF_SESSION = 4 * 1024
/** Characters of what a server says of how it is to be used. */
const LONGEST_INSTRUCTIONS = 64 * 1024

export type Capabilities = Readonly<Record<string, unknown>>

/**
 * The capabilities in the answer to `initialize` or `server/discover`; `known` are those of another session, which are
 * given where they are the same. Throws a BackendFailure where they are too large to be kept.
 */
export function capabilitiesIn(
  result: Readonly<Record<string, unknown>> | undefined,
  known?: Capabilities,
): Capabilities {
  const capabilities = result?.['capabilities']
  if (!isObject(capabilities)) return {}
  const text = JSON.stringify(capabilities)
  if (known !== undefined && text === JSON.stringify(known)) return known
  const most = known === undefined ? MOST_CAPABILITIES : MOST_OF_SESSION
  if (text.length <= most) return capabilities
  throw new BackendFailure('backend_failed', `its capabilities are larger than ${most / 1024} KiB`)
}

/** What a server says of how it is to be used, at most the first 64 Ki characters. */
export function instructionsIn(result: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const instructions = result?.['instructions']
  return typeof instructions === 'string' && instructions !== ''
    ? instructions.slice(0, LONGEST_INSTRUCTIONS)
    : undefined
}
