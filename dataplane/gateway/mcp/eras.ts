import type { IncomingHttpHeaders } from 'node:http'
import { isObject } from '../../../crds/settings/json.ts'
import { PublicError } from '../../server/errors.ts'
import { parseObject } from './json.ts'
import type { Message } from './message.ts'

/**
 * The two eras of MCP, and their revisions. In the legacy era a client opens a session by `initialize`. In the modern
 * era each request describes itself, by `_meta` and by headers that repeat parts of the message.
 */

/** The revision of the modern era. */
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
export function readSupported({ code, data }: Readonly<Record<string, unknown>>): readonly unknown[] | undefined {
  const supported = code === -32022 && isObject(data) ? data['supported'] : undefined
  return Array.isArray(supported) ? supported : undefined
}

/** Tells whether an answer to `initialize` (JSON text) is a refusal by a server of the modern era. */
export function isModernRefusal(text: string): boolean {
  const error = parseObject(text)?.['error']
  return isObject(error) && isModernError(error) && (readSupported(error)?.includes(MODERN) ?? true)
}

export const hasExtension = (capabilities: unknown, name: string): boolean =>
  isObject(capabilities) && isObject(capabilities['extensions']) && name in capabilities['extensions']

/** The extension with which a server of the modern era runs calls as tasks (SEP-2663). */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'

/**
 * The gateway's own extension, declared in the modern era: calls behind it run as tasks of the legacy era. Another
 * gateway that relays such tasks uses the legacy era with it.
 */
export const SESSION_TASKS_EXTENSION = 'portico.dev/session-tasks'

export const hasTasks = (capabilities: unknown): boolean => hasExtension(capabilities, TASKS_EXTENSION)

export const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion'
export const CAPABILITIES_KEY = 'io.modelcontextprotocol/clientCapabilities'
export const LOG_LEVEL_KEY = 'io.modelcontextprotocol/logLevel'

/** The log levels of MCP, which are those of RFC 5424, the least severe first. */
export const LEVELS: readonly string[] = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
]

/** Returns the severity of a log level (any JSON value); -1 for any other value. */
export const rankLevel = (level: unknown): number => (typeof level === 'string' ? LEVELS.indexOf(level) : -1)

/** Methods whose answer may be a question (2026-07-28, multi round-trip requests). */
export const MAY_ASK: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read'])

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
 * Checks a modern message: its envelope, its revision, and that its headers repeat the body, because intermediaries may
 * read only the headers. Notifications need no envelope.
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

/** The form of a header value that is not plain visible ASCII: Base64 of UTF-8 (2026-07-28, transports). */
const ENCODED = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/
const PLAIN = /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/

/** An argument that the modern era repeats in a header, as `x-mcp-header` in a tool's inputSchema declares. */
export interface ParamHeader {
  /** The header's name in lower case, with the `mcp-param-` prefix. */
  readonly header: string
  /** The names from the arguments down to the value. */
  readonly path: readonly string[]
}

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const TYPES: readonly unknown[] = ['string', 'integer', 'boolean']
/** Keywords whose value maps names to schemas. */
const MAPS = new Set(['properties', 'patternProperties', 'dependentSchemas', '$defs', 'definitions'])
/** Keywords whose value is data, in which `x-mcp-header` is an ordinary member. */
const DATA = new Set(['default', 'const', 'enum', 'examples', 'required', 'x-mcp-header'])
const DEEPEST = 100

export function encodeHeaderValue(value: string): string {
  if (PLAIN.test(value) && !looksEncoded(value)) return value
  return `=?base64?${Buffer.from(value, 'utf8').toString('base64')}?=`
}

/** Decodes a header value. Throws `header_mismatch` for invalid characters and invalid Base64. */
export function decodeHeaderValue(header: string, name: string): string {
  const encoded = ENCODED.exec(header)
  if (encoded !== null) {
    const base64 = encoded[1] as string
    const bytes = Buffer.from(base64, 'base64')
    // Buffer skips invalid characters, so the text is valid Base64 only if the bytes encode back to it.
    if (bytes.toString('base64') !== base64) throw mismatch(`${name} holds bad Base64.`)
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    } catch {
      throw mismatch(`${name} holds Base64 of bytes that are not UTF-8.`)
    }
  }
  if (looksEncoded(header)) throw mismatch(`${name} holds bad Base64.`)
  if (header !== '' && !PLAIN.test(header)) throw mismatch(`${name} holds characters that need Base64.`)
  return header
}

const looksEncoded = (value: string): boolean => value.startsWith('=?base64?') && value.endsWith('?=')

const mismatch = (message: string): PublicError => new PublicError('header_mismatch', { message })

/** An `x-mcp-header` that invalidates the whole tool (2026-07-28, transports: a client drops such a tool). */
export class InvalidParamHeader extends Error {}

/** Reads the declared headers of an inputSchema. Throws InvalidParamHeader with the reason. */
export function readParamHeaders(inputSchema: unknown): readonly ParamHeader[] {
  const found: ParamHeader[] = []
  visitSchema(inputSchema, [], found, 0)
  return found
}

/** Visits a schema. `path` is undefined if the value is reachable by other keywords than `properties`. */
function visitSchema(schema: unknown, path: readonly string[] | undefined, found: ParamHeader[], depth: number): void {
  if (depth > DEEPEST || typeof schema !== 'object' || schema === null) return
  if (Array.isArray(schema)) {
    visitMap(schema, undefined, found, depth + 1)
    return
  }
  const node = schema as Record<string, unknown>
  if ('x-mcp-header' in node) found.push(readDeclared(node, path, found))
  for (const [keyword, value] of Object.entries(node)) {
    if (DATA.has(keyword)) continue
    if (!MAPS.has(keyword) || !isObject(value)) visitSchema(value, undefined, found, depth + 1)
    else visitMap(value, keyword === 'properties' ? path : undefined, found, depth + 1)
  }
}

/** Visits each schema of a map or list of schemas. */
function visitMap(map: object, path: readonly string[] | undefined, found: ParamHeader[], depth: number): void {
  for (const [name, value] of Object.entries(map)) visitSchema(value, path && [...path, name], found, depth)
}

function readDeclared(
  node: Record<string, unknown>,
  path: readonly string[] | undefined,
  found: readonly ParamHeader[],
): ParamHeader {
  const name = node['x-mcp-header']
  if (typeof name !== 'string' || !TOKEN.test(name))
    throw new InvalidParamHeader(`x-mcp-header ${JSON.stringify(name)} is not a header token`)
  if (path === undefined || path.length === 0)
    throw new InvalidParamHeader(`x-mcp-header ${name} is not reached through properties alone`)
  if (!TYPES.includes(node['type']))
    throw new InvalidParamHeader(`x-mcp-header ${name} is not on a string, integer or boolean`)
  const header = `mcp-param-${name.toLowerCase()}`
  if (found.some((other) => other.header === header))
    throw new InvalidParamHeader(`x-mcp-header ${name} is declared twice`)
  return { header, path }
}

/** Adds the headers that are declared for these arguments to a flat list. An absent or null value adds none. */
export function addParamHeaders(headers: string[], declarations: readonly ParamHeader[], args: unknown): void {
  for (const { header, path } of declarations) {
    const text = toHeaderText(valueAt(args, path))
    if (text !== undefined) headers.push(header, encodeHeaderValue(text))
  }
}

/** Checks that the declared headers repeat the arguments. Throws `header_mismatch`. */
export function checkParamHeaders(
  incoming: IncomingHttpHeaders,
  declarations: readonly ParamHeader[],
  args: unknown,
): void {
  for (const { header, path } of declarations) {
    const value = valueAt(args, path)
    const text = toHeaderText(value)
    const given = incoming[header]
    if (typeof given !== 'string') {
      if (text !== undefined) throw mismatch(`${header} is missing.`)
      continue
    }
    const decoded = decodeHeaderValue(given, header)
    // `1`, `1.0` and `1e0` are equal numbers.
    const same = typeof value === 'number' ? decoded !== '' && Number(decoded) === value : decoded === text
    if (!same) throw mismatch(`${header} differs from the argument.`)
  }
}

function valueAt(root: unknown, path: readonly string[]): unknown {
  let value = root
  for (const name of path) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined
    value = value[name]
  }
  return value
}

/**
 * Returns the header form of a value: decimal text for a number, `true` or `false`; undefined for values that have
 * none, such as an integer beyond 2^53.
 */
function toHeaderText(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  if (typeof value === 'boolean') return String(value)
  if (typeof value === 'number' && (!Number.isInteger(value) || Number.isSafeInteger(value))) return String(value)
  return undefined
}
