import { isObject } from '../../../../crds/settings/json.ts'
import { ALL_CAPABILITIES } from '../../mcp/client-capabilities.ts'
import { parseObject } from '../../mcp/parse.ts'
import {
  CAPABILITIES_KEY,
  hasExtension,
  isModernError,
  legacyRevisions,
  MODERN,
  supportedIn,
  VERSION_KEY,
} from '../../mcp/revisions.ts'
import { FIRST_OWN_ID, requestText } from '../../mcp/rpc-text.ts'
import { SESSION_TASKS_EXTENSION } from '../../mcp/tasks.ts'
import { BackendFailure } from '../connection/failure.ts'
import type { BackendAnswer } from '../connection/request.ts'

/** The era that a backend speaks, with its self-description in the answer to the probe. */
export type Era =
  | {
      readonly era: 'modern'
      readonly capabilities: Readonly<Record<string, unknown>>
      readonly instructions?: string | undefined
    }
  | { readonly era: 'legacy' }

/** Statuses that tell of credentials, load or the network path, and nothing of the era. */
export const NO_EVIDENCE: ReadonlySet<number> = new Set([401, 403, 407, 408, 425, 429])

/** The most characters of a server's capabilities (JSON text), which are kept with each open session. */
const MOST_CAPABILITIES = 64 * 1024
/** The same limit for a session whose capabilities differ from those of the gateway's own session. */
const MOST_OF_SESSION = 4 * 1024
/** The most characters of a server's `instructions`. */
const LONGEST_INSTRUCTIONS = 64 * 1024

type Capabilities = Readonly<Record<string, unknown>>

/**
 * Builds `_meta` of the gateway's own requests. It declares all capabilities, because lists are read for clients of any
 * kind and must include all that the backend shows to some client.
 */
export const ownMeta = (client: { readonly name: string; readonly version: string }) => ({
  [VERSION_KEY]: MODERN,
  [CAPABILITIES_KEY]: ALL_CAPABILITIES,
  'io.modelcontextprotocol/clientInfo': client,
})

/** Builds the probe: a request that every modern server answers and that no legacy server knows. */
export const discoverText = (client: { readonly name: string; readonly version: string }): string =>
  requestText(FIRST_OWN_ID, 'server/discover', { _meta: ownMeta(client) })

/** Returns the era that the answer to the probe proves. Throws a BackendFailure if the answer proves nothing. */
export function eraOfAnswer(given: BackendAnswer): Era {
  const { status, text } = given
  const answer = parseObject(text)
  const error = isObject(answer?.['error']) ? answer['error'] : undefined
  if (error !== undefined && isModernError(error)) return eraOfModernError(error)
  if (status >= 200 && status < 300) {
    if (isObject(answer?.['result'])) return eraOfResult(answer['result'])
    if (error !== undefined) return { era: 'legacy' }
  } else if (status >= 400 && status < 500 && !NO_EVIDENCE.has(status)) return { era: 'legacy' }
  throw unproven(given)
}

function unproven({ status, refusal }: BackendAnswer): BackendFailure {
  const detail = refusal?.detail ?? `HTTP ${status} and no JSON-RPC`
  const text = refusal?.text
  return new BackendFailure('backend_failed', `answered the probe with ${detail}`, {
    status,
    ...(text === undefined ? {} : { text }),
  })
}

function eraOfResult(result: Readonly<Record<string, unknown>>): Era {
  const versions = result['supportedVersions']
  if (!Array.isArray(versions) || !versions.includes(MODERN)) return { era: 'legacy' }
  const capabilities = capabilitiesIn(result)
  if (hasExtension(capabilities, SESSION_TASKS_EXTENSION)) return { era: 'legacy' }
  return { era: 'modern', capabilities, instructions: instructionsIn(result) }
}

function eraOfModernError(error: Record<string, unknown>): Era {
  const supported = supportedIn(error)
  if (supported === undefined || supported.includes(MODERN)) return { era: 'modern', capabilities: { tools: {} } }
  if (supported.some((version) => legacyRevisions.includes(version as string))) return { era: 'legacy' }
  throw new BackendFailure('backend_failed', 'supports no protocol revision that Portico supports')
}

/** The capabilities that stand for lists. */
const LISTS = ['tools', 'prompts', 'resources']

/** Tells whether a server declares no list at all. Such a server may still have lists, so it is asked. */
export const declaresNoList = (capabilities: Capabilities): boolean =>
  !LISTS.some((name) => isObject(capabilities[name]))

/** Tells whether the backend has refused to open any session. */
export const isRefusal = ({ status }: BackendFailure): boolean =>
  status === 200 || (status !== undefined && status >= 400 && status < 500 && !NO_EVIDENCE.has(status))

/**
 * Reads the capabilities in the answer to `initialize` or `server/discover`. If they equal `known`, those of another
 * session, returns that object. Throws a BackendFailure if they are too large.
 */
export function capabilitiesIn(
  result: Readonly<Record<string, unknown>> | undefined,
  known?: Capabilities,
): Capabilities {
  const said = result?.['capabilities']
  if (!isObject(said)) return {}
  // Some servers write `true` instead of an empty object.
  const capabilities = Object.fromEntries(
    Object.entries(said).map(([name, value]) => [name, value === true ? {} : value]),
  )
  const text = JSON.stringify(capabilities)
  if (known !== undefined && text === JSON.stringify(known)) return known
  const most = known === undefined ? MOST_CAPABILITIES : MOST_OF_SESSION
  if (text.length <= most) return capabilities
  throw new BackendFailure('backend_failed', `its capabilities are larger than ${most / 1024} KiB`)
}

/** Reads a server's `instructions`, at most the first 64 Ki characters. */
export function instructionsIn(result: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const instructions = result?.['instructions']
  return typeof instructions === 'string' && instructions !== ''
    ? instructions.slice(0, LONGEST_INSTRUCTIONS)
    : undefined
}
