import type { IncomingHttpHeaders } from 'node:http'
import { isObject } from '../../../crds/settings/json.ts'
import { PublicError } from '../../server/errors.ts'

/** Header values of the modern era: plain visible ASCII, or `=?base64?…?=` of UTF-8 (2026-07-28, transports). */

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

export const mismatch = (message: string): PublicError => new PublicError('header_mismatch', { message })

/** An `x-mcp-header` that invalidates the whole tool (2026-07-28, transports: a client drops such a tool). */
export class InvalidParamHeader extends Error {}

/** Reads the declared headers of an inputSchema. Throws InvalidParamHeader with the reason. */
export function readParamHeaders(inputSchema: unknown): readonly ParamHeader[] {
  const found: ParamHeader[] = []
  visit(inputSchema, [], found, 0)
  return found
}

/** Visits a schema. `path` is undefined if the value is reachable by other keywords than `properties`. */
function visit(schema: unknown, path: readonly string[] | undefined, found: ParamHeader[], depth: number): void {
  if (depth > DEEPEST || typeof schema !== 'object' || schema === null) return
  if (Array.isArray(schema)) {
    visitMap(schema, undefined, found, depth + 1)
    return
  }
  const node = schema as Record<string, unknown>
  if ('x-mcp-header' in node) found.push(declared(node, path, found))
  for (const [keyword, value] of Object.entries(node)) {
    if (DATA.has(keyword)) continue
    if (!MAPS.has(keyword) || !isObject(value)) visit(value, undefined, found, depth + 1)
    else visitMap(value, keyword === 'properties' ? path : undefined, found, depth + 1)
  }
}

/** Visits each schema of a map or list of schemas. */
function visitMap(map: object, path: readonly string[] | undefined, found: ParamHeader[], depth: number): void {
  for (const [name, value] of Object.entries(map)) visit(value, path && [...path, name], found, depth)
}

function declared(
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
