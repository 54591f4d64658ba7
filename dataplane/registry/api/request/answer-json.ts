import type { Context } from 'hono'
import type { RegistryEnv } from './operation.ts'

/** 200 with a body that may be large: it is held against the caller's share until it is taken, and refused beyond it. */
export function answerJson(c: Context<RegistryEnv>, value: object): Response {
  const text = JSON.stringify(value)
  const { held } = c.var
  held.demand(held.bytes + Buffer.byteLength(text))
  return c.body(text, 200, { 'content-type': 'application/json' })
}
