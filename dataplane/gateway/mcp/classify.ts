import type { IncomingHttpHeaders } from 'node:http'
import { isObject } from '../../../crds/settings/json.ts'
import { PublicError } from '../../server/errors.ts'
import { decodeHeaderValue, mismatch } from './headers.ts'
import type { Message } from './message.ts'
import { isModernRevision, MODERN, servedRevisions } from './revisions.ts'

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
export function eraOf(message: Message, headers: IncomingHttpHeaders): 'modern' | 'legacy' {
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
