import type { IncomingHttpHeaders } from 'node:http'
import { isObject } from '../../../crds/settings/json.ts'
import { PublicError } from '../../server/errors.ts'
import { decodeHeaderValue, mismatch } from './headers.ts'
import type { Message } from './message.ts'
import { parseObject } from './parse.ts'

export const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion'
export const CAPABILITIES_KEY = 'io.modelcontextprotocol/clientCapabilities'
export const LOG_LEVEL_KEY = 'io.modelcontextprotocol/logLevel'

/** The parameter that `Mcp-Name` repeats, by method (2026-07-28, transports). */
const nameSource: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
}

/**
 * Returns the era of a posted message. The body decides: a protocol version in `_meta` means the modern era, and its
 * absence the legacy era. A header that claims the modern era must agree with the body.
 */
export function classifyEra(message: Message, headers: IncomingHttpHeaders): 'modern' | 'legacy' {
  const version = message.meta?.[VERSION_KEY]
  const header = headers['mcp-protocol-version']
  const headerIsModern = typeof header === 'string' && isModernRevision(header)
  if (version !== undefined && !(message.method === 'initialize' && !isModern(version))) return 'modern'
  if (!headerIsModern) return 'legacy'
  if (message.kind === 'notification') return 'modern'
  if (message.kind === 'response')
    throw new PublicError('invalid_message', { message: 'A response can’t be sent by POST here.' })
  if (message.method === 'initialize') throw mismatch('initialize opens the legacy era; the header names the modern.')
  throw new PublicError('invalid_params', { message: `params._meta must hold ${VERSION_KEY}.` })
}

const isModern = (version: unknown): boolean => typeof version === 'string' && isModernRevision(version)

/**
 * Checks a modern message: its envelope, a served revision, and headers that repeat the body, so that intermediaries
 * that read only headers were not misled. Notifications need no envelope.
 */
export function checkModern(message: Message, headers: IncomingHttpHeaders): void {
  const meta = message.meta
  const version = meta?.[VERSION_KEY]
  const header = headers['mcp-protocol-version']
  if (message.kind === 'notification' && version === undefined) {
    checkMethod(message, headers)
    return
  }
  if (typeof version !== 'string')
    throw new PublicError('invalid_params', { message: `params._meta.${VERSION_KEY} must be a string.` })
  if (message.kind === 'request' && !isObject(meta?.[CAPABILITIES_KEY]))
    throw new PublicError('invalid_params', { message: `params._meta must hold ${CAPABILITIES_KEY}.` })
  if (header === undefined && message.kind === 'request') throw mismatch('MCP-Protocol-Version is missing.')
  if (header !== undefined && header !== version)
    throw mismatch('MCP-Protocol-Version differs from the version in params._meta.')
  if (version !== MODERN) throw unsupportedVersion(version, [MODERN])
  checkMethod(message, headers)
  checkName(message, headers)
}

/**
 * Builds the error for an unsupported version. `supported` lists the versions that the same request may use instead: in
 * the modern era, those of `server/discover`.
 */
export const unsupportedVersion = (requested: string, supported: readonly string[] = servedRevisions): PublicError =>
  new PublicError('unsupported_version', { data: { supported, requested } })

function checkMethod(message: Message, headers: IncomingHttpHeaders): void {
  const header = headers['mcp-method']
  if (header === undefined) {
    if (message.kind === 'request') throw mismatch('Mcp-Method is missing.')
    return
  }
  if (header !== message.method) throw mismatch('Mcp-Method differs from the method in the body.')
}

function checkName(message: Message, headers: IncomingHttpHeaders): void {
  const source = Object.hasOwn(nameSource, message.method) ? nameSource[message.method] : undefined
  if (source === undefined || message.kind !== 'request') return
  const value = message.parameter(source)
  const header = headers['mcp-name']
  if (typeof header !== 'string') {
    if (value !== undefined) throw mismatch('Mcp-Name is missing.')
    return
  }
  if (decodeHeaderValue(header, 'Mcp-Name') !== value) throw mismatch(`Mcp-Name differs from params.${source}.`)
}

/**
 * The protocol revision of the modern era, in which each request describes itself. The legacy era begins with
 * `initialize`.
 */

export const MODERN = '2026-07-28'

/** Legacy revisions served over Streamable HTTP, newest first. 2024-11-05 is HTTP+SSE and is not served. */
export const legacyRevisions: readonly string[] = ['2025-11-25', '2025-06-18', '2025-03-26']

/** Every revision that is served, newest first: the `supported` versions of -32022 and `server/discover`. */
const servedRevisions: readonly string[] = [MODERN, ...legacyRevisions]

/** The only revision with batches. It introduced them, and the next one removed them. */
export const WITH_BATCHES = '2025-03-26'

/** Codes that only a peer of the modern era sends (2026-07-28, errors). */
const MODERN_CODES: ReadonlySet<unknown> = new Set([-32020, -32021, -32022])

export const isLegacyRevision = (version: string): boolean => legacyRevisions.includes(version)

/**
 * Tells whether a backend may choose this revision, which is not served to clients. Its messages are those of
 * 2025-03-26.
 */
export const isOldRevision = (version: string): boolean => version === '2024-11-05' || version === '2024-10-07'

/** Tells whether this text names a revision of the modern era, served or not. Revisions are dates. */
export const isModernRevision = (version: string): boolean =>
  version === MODERN || (version > MODERN && version.length === MODERN.length && /^\d{4}-\d{2}-\d{2}$/.test(version))

/** Returns the revision for the answer to `initialize`: the requested one, or the newest legacy one. */
export const negotiateLegacy = (requested: unknown): string =>
  typeof requested === 'string' && isLegacyRevision(requested) ? requested : (legacyRevisions[0] as string)

/** Tells whether only a peer of the modern era sends this error. */
export const isModernError = ({ code }: Readonly<Record<string, unknown>>): boolean => MODERN_CODES.has(code)

/** Returns the revisions that an error names as supported; undefined if it names none. */
export function supportedIn({ code, data }: Readonly<Record<string, unknown>>): readonly unknown[] | undefined {
  const supported = code === -32022 && isObject(data) ? data['supported'] : undefined
  return Array.isArray(supported) ? supported : undefined
}

/** Tells whether an answer to `initialize` (JSON text) is a refusal by a server of the modern era. */
export function isModernRefusal(text: string): boolean {
  const error = parseObject(text)?.['error']
  return isObject(error) && isModernError(error) && (supportedIn(error)?.includes(MODERN) ?? true)
}

/** Tells whether these capabilities include this extension. */
export const hasExtension = (capabilities: unknown, name: string): boolean =>
  isObject(capabilities) && isObject(capabilities['extensions']) && name in capabilities['extensions']
