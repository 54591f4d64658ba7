import { parseJson, structureBytes } from '../mcp/parse.ts'

/** JSON with integers beyond the precision of JavaScript's numbers, which stay as written (`JSON.rawJSON`). */

/** Declarations that TypeScript's library lacks (ECMAScript, JSON.parse source text access). */
const json = JSON as unknown as {
  parse(text: string, reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown): unknown
  rawJSON(text: string): object
  isRawJSON(value: unknown): value is { readonly rawJSON: string }
}
const LONG = /[0-9]{16}/

/** Parses JSON from outside. Throws a SyntaxError if it is invalid or nested too deep. */
export function parseExact(text: string): unknown {
  if (!LONG.test(text)) return parseJson(text)
  structureBytes(text)
  return json.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && isInexact(value, source) ? json.rawJSON(source) : value,
  )
}

const isInexact = (value: number, source: string): boolean =>
  Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?[0-9]+$/.test(source)

/** Returns the digits of a number that is kept as it was written; undefined for every other value. */
export const digitsOf = (value: unknown): string | undefined => (json.isRawJSON(value) ? value.rawJSON : undefined)
