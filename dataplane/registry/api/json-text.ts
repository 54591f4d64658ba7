import type { Context } from 'hono'

/** A JSON answer whose text is there already. */
export function jsonText(c: Context, text: string, headers: Record<string, string>): Response {
  return c.body(text, 200, { 'content-type': 'application/json', 'x-content-type-options': 'nosniff', ...headers })
}
