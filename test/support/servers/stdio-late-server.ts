/**
 * A program that serves only the modern era on standard input and output. Like a slow server, it answers only after the
 * probe has timed out: its first answer is to `initialize`.
 */
import { createInterface } from 'node:readline'

const MODERN = '2026-07-28'
const send = (message: object) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)

const results: Readonly<Record<string, object>> = {
  'server/discover': { supportedVersions: [MODERN], capabilities: { tools: {} } },
  'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
  'tools/call': { content: [{ type: 'text', text: 'late' }] },
}
let isUp = false

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line)
  if (id === undefined) return
  if (method === 'initialize') {
    isUp = true
    const data = { supported: [MODERN] }
    send({ id, error: { code: -32022, message: 'Unsupported protocol version', data } })
  } else if (isUp)
    send(
      method in results
        ? { id, result: { resultType: 'complete', ...results[method] } }
        : { id, error: { code: -32601, message: 'Method not found' } },
    )
})
