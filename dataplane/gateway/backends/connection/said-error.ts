import { isObject } from '../../../../crds/settings/json.ts'
import { sameId } from '../../mcp/answer-scanner.ts'
import { memberText } from '../../mcp/json.ts'
import { mendedError } from '../../mcp/mended-error.ts'
import { parseObject } from '../../mcp/parse.ts'
import type { SaidError } from './failure.ts'

/** The JSON-RPC error in a body: its code, and the whole error as JSON text in the form of JSON-RPC. */
interface FoundError {
  readonly code: unknown
  readonly text: string
}

/** Reads the JSON-RPC error that a body holds; undefined if it holds none. */
export function errorIn(body: string): FoundError | undefined {
  const message = parseObject(body)
  if (!isObject(message?.['error'])) return undefined
  return { code: message['error']['code'], text: mendedError(memberText(body, 'error') as string) }
}

const NONE: ReadonlySet<unknown> = new Set()

/**
 * Reads the JSON-RPC error that came with an HTTP status for the request with this id (JSON text). Errors with the codes
 * `without` are not for callers.
 */
export function saidIn(body: string, sentId: string | undefined, without = NONE): SaidError | undefined {
  const found = errorIn(body)
  if (found === undefined || sentId === undefined || without.has(found.code)) return undefined
  return { error: found.text, code: found.code, isOwn: sameId(memberText(body, 'id'), sentId) }
}
