import { isObject } from '../../crds/settings/json.ts'
import type { McpAnswer } from '../mcp/client.ts'
import { type Field, MOST_QUESTIONS } from '../mcp/form-values.ts'
import type { Headed } from './workload.ts'

export interface ToolRow {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly hints: readonly string[]
  readonly href: string
}

export interface ToolsFacts extends Headed {
  readonly tools: readonly ToolRow[]
  readonly missing: string | null
  /** True if callers need a token, and the console has none of this viewer. */
  readonly needsToken: boolean
  readonly hasToken: boolean
}

export interface TryFacts extends ToolsFacts {
  readonly tool: ToolRow
  readonly schema: string
  readonly fields: readonly Field[]
  readonly values: Readonly<Record<string, string>>
  readonly raw: string
  readonly problem: string | null
  /** True if the tool may destroy something, so that the viewer must confirm the call. */
  readonly asksAgain: boolean
  readonly result: ResultFacts | null
  /** The input of a denied call, for its explanation; null unless the call was denied. */
  readonly why: { readonly arguments: string; readonly claims: string } | null
}

export type ResultFacts = ReturnType<typeof readResult>

/** The most characters of a part, and of the raw answer, on a page. */
const MOST_SHOWN = 20_000
const MOST_PARTS = 200

/** Cuts a text that is too long for a page, not within a surrogate pair. */
const cut = (value: string): string =>
  value.length > MOST_SHOWN ? `${value.slice(0, MOST_SHOWN).replace(/[\ud800-\udbff]$/, '')}…` : value

const HINTS: readonly (readonly [name: string, value: boolean, word: string])[] = [
  ['readOnlyHint', true, 'read-only'],
  ['destructiveHint', true, 'destructive'],
  ['idempotentHint', true, 'idempotent'],
  ['openWorldHint', true, 'open-world'],
]

/** Returns the hints of a tool as words. The server states them, and nobody checks them. */
export const listHints = (annotations: Readonly<Record<string, unknown>>): readonly string[] =>
  HINTS.flatMap(([name, value, word]) => (annotations[name] === value ? [word] : []))

/** Returns any value as text. */
export const plain = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value)

/** Reads the answer to a tool call. */
export function readResult(
  answer: McpAnswer,
  progress: readonly string[],
  fieldsIn: (schema: unknown) => readonly Field[],
) {
  const { message, status, durationMs, bytes, isCut, requestId } = answer
  const result = isObject(message?.['result']) ? message['result'] : {}
  const error = isObject(message?.['error']) ? message['error'] : undefined
  const content = Array.isArray(result['content']) ? result['content'].filter(isObject).slice(0, MOST_PARTS) : []
  const structured = result['structuredContent']
  return {
    status,
    durationMs,
    bytes,
    isCut,
    requestId,
    isError: error !== undefined || result['isError'] === true || message === undefined,
    content: content.map(readPart),
    structured: structured === undefined ? null : cut(JSON.stringify(structured, null, 2)),
    error: errorText(answer, error),
    raw: cut(message === undefined ? answer.text : JSON.stringify(message, null, 2)),
    /** The progress that was reported before the answer. */
    progress,
    questions: readQuestions(result, fieldsIn),
    requestState: typeof result['requestState'] === 'string' ? result['requestState'] : null,
  }
}

function errorText(
  { message, isCut, status }: McpAnswer,
  error: Readonly<Record<string, unknown>> | undefined,
): string | null {
  if (error !== undefined) return `${plain(error['code'])}: ${plain(error['message'])}`
  if (status === 401) return 'The token has ended or is not accepted. The call was not repeated.'
  if (isCut) return 'The answer is too long to be kept.'
  return message === undefined ? `HTTP ${status}, and no message of MCP.` : null
}

function readPart({ type, text, data, mimeType, uri, resource }: Readonly<Record<string, unknown>>) {
  const inner = isObject(resource) ? resource : {}
  const texts = [text, inner['text'], uri, inner['uri']]
  const shown = texts.find((one): one is string => typeof one === 'string') ?? ''
  const size = typeof data === 'string' ? Math.floor((data.length * 3) / 4) : Buffer.byteLength(shown)
  return {
    type: plain(type),
    text: cut(shown),
    mimeType: typeof mimeType === 'string' ? mimeType : null,
    bytes: size,
    /** The number of leading characters that are shown; null if all are. */
    shown: shown.length > MOST_SHOWN ? MOST_SHOWN : null,
  }
}

/** Reads the questions of the tool to its caller. */
function readQuestions(result: Readonly<Record<string, unknown>>, fieldsIn: (schema: unknown) => readonly Field[]) {
  if (result['resultType'] !== 'input_required' || !isObject(result['inputRequests'])) return []
  return Object.entries(result['inputRequests'])
    .slice(0, MOST_QUESTIONS)
    .map(([id, asked]) => {
      const params = isObject(asked) && isObject(asked['params']) ? asked['params'] : {}
      return { id, message: plain(params['message']), fields: fieldsIn(params['requestedSchema']) }
    })
}
