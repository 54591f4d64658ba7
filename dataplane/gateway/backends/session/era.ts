import { isObject } from '../../../../crds/settings/json.ts'
import { ALL_CAPABILITIES } from '../../mcp/client-capabilities.ts'
import {
  CAPABILITIES_KEY,
  hasExtension,
  isModernError,
  legacyRevisions,
  MODERN,
  readSupported,
  SESSION_TASKS_EXTENSION,
  VERSION_KEY,
} from '../../mcp/eras.ts'
import { parseObject } from '../../mcp/json.ts'
import { FIRST_OWN_ID, requestText } from '../../mcp/rpc-text.ts'
import { BackendFailure, connectionFailure } from '../connection/failure.ts'
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
export function readEra({ status, text, refusal }: BackendAnswer): Era {
  const answer = parseObject(text)
  const error = isObject(answer?.['error']) ? answer['error'] : undefined
  if (error !== undefined && isModernError(error)) return readEraOfError(error)
  if (status >= 200 && status < 300) {
    if (isObject(answer?.['result'])) return readEraOfResult(answer['result'])
    if (error !== undefined) return { era: 'legacy' }
  } else if (status >= 400 && status < 500 && !NO_EVIDENCE.has(status)) return { era: 'legacy' }
  const detail = refusal?.detail ?? `HTTP ${status} and no JSON-RPC`
  throw new BackendFailure('backend_failed', `answered the probe with ${detail}`, { status, text: refusal?.text })
}

function readEraOfResult(result: Readonly<Record<string, unknown>>): Era {
  const versions = result['supportedVersions']
  if (!Array.isArray(versions) || !versions.includes(MODERN)) return { era: 'legacy' }
  const capabilities = readCapabilities(result)
  if (hasExtension(capabilities, SESSION_TASKS_EXTENSION)) return { era: 'legacy' }
  return { era: 'modern', capabilities, instructions: readInstructions(result) }
}

function readEraOfError(error: Record<string, unknown>): Era {
  const supported = readSupported(error)
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
export function readCapabilities(
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
export function readInstructions(result: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const instructions = result?.['instructions']
  return typeof instructions === 'string' && instructions !== ''
    ? instructions.slice(0, LONGEST_INSTRUCTIONS)
    : undefined
}

/** A session that can be opened with the backend. `open` rejects with a BackendFailure. */
interface Opener {
  open(): Promise<unknown>
}

/**
 * The time in milliseconds for which a refusal of `initialize` counts. It is limited because an upgraded server does
 * not announce itself.
 */
const REFUSED_MS = 5 * 60_000
/**
 * The pause after an attempt without a clear result, in milliseconds. It doubles with each such attempt, up to
 * REFUSED_MS.
 */
const FIRST_PAUSE_MS = 10_000
/**
 * Finds out whether a modern backend also supports the legacy era. `server/discover` does not show it, so the first
 * session that a client needs is the test. If it fails, legacy clients are served in the modern era.
 */
export class LegacySupport {
  #state: 'unknown' | 'has' | 'lacks' = 'unknown'
  #lacksUntil = 0
  #pauseMs = FIRST_PAUSE_MS
  /** The first attempt. Other sessions wait for it. */
  #trying: Promise<void> | undefined
  readonly #isPossible: boolean

  /** @param isPossible false if one conversation in one era serves all clients (standard input and output) */
  constructor(isPossible: boolean) {
    this.#isPossible = isPossible
  }

  /** True if a session should be used or at least tried. */
  get isWorthTrying(): boolean {
    if (!this.#isPossible) return false
    if (this.#state !== 'lacks') return true
    if (performance.now() < this.#lacksUntil) return false
    this.#state = 'unknown'
    return true
  }

  /**
   * Opens a session, or finds out that the backend gives none; `isWorthTrying` shows the result. Rejects with a
   * BackendFailure if the backend can't be reached.
   */
  open(session: Opener): Promise<void> {
    if (this.#state === 'has') return this.#try(session)
    this.#trying ??= this.#try(session).finally(() => {
      this.#trying = undefined
    })
    return this.#trying
  }

  async #try(session: Opener): Promise<void> {
    try {
      await session.open()
      this.#state = 'has'
      this.#pauseMs = FIRST_PAUSE_MS
    } catch (error) {
      const failure = connectionFailure(error)
      if (failure.code === 'backend_unavailable') throw failure
      this.#lack(isRefusal(failure) ? REFUSED_MS : this.#nextPause())
    }
  }

  /** Records that the backend does not know a session that it has just opened. */
  refute(): void {
    this.#lack(REFUSED_MS)
  }

  /** Forgets the result. After an outage, or the end of its stream, the backend may be a different version. */
  forget(): void {
    if (this.#state === 'lacks') this.#state = 'unknown'
  }

  #lack(ms: number): void {
    this.#state = 'lacks'
    this.#lacksUntil = performance.now() + ms
  }

  #nextPause(): number {
    const pause = this.#pauseMs
    this.#pauseMs = Math.min(pause * 2, REFUSED_MS)
    return pause
  }
}
