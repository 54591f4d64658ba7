import type { Context } from 'hono'
import { acceptsGzip, createCompressor } from './compressed.ts'

/** Answers with JSON whose text is there already. */
export type SendJson = (c: Context, text: string, headers: Record<string, string>) => Response | Promise<Response>

/** Makes the function that sends JSON texts, compressed for those who can read that. */
export function jsonSender(): SendJson {
  const compress = createCompressor()

  return function sendJson(c, text, headers) {
    const all = { 'content-type': 'application/json', 'x-content-type-options': 'nosniff', ...headers }
    c.header('vary', 'Accept-Encoding', { append: true })
    const compressed = acceptsGzip(c.req.header('accept-encoding')) ? compress(text) : undefined
    if (compressed === undefined) return c.body(text, 200, all)
    return compressed.then((bytes) => c.body(bytes, 200, { ...all, 'content-encoding': 'gzip' }))
  }
}
