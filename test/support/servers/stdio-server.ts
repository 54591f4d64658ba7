/**
 * A typical program on standard input and output: legacy, prints a banner, and misbehaves on demand. `MODE` decides
 * what it does at the probe: `ends` exits, `silent` does not answer. With `forgets` it is a bridge to a server that
 * loses its session after the tool `noise`.
 */
import { createInterface } from 'node:readline'

const mode = process.env['MODE'] ?? ''
const write = (text: string) => process.stdout.write(`${text}\n`)
const send = (message: object) => write(JSON.stringify({ jsonrpc: '2.0', ...message }))

write('Welcome to the raw server! {not json')
console.error('the raw server starts')

const tools = ['echo', 'noise', 'die', 'huge', 'ask', 'env', 'count', 'slow', 'progress', 'giant'].map((name) => ({
  name,
  inputSchema: { type: 'object' },
}))
let initialized = 0
let isForgotten = false
let asking: { id: unknown; must: boolean } | undefined
const cancelled = new Set<unknown>()

const text = (value: string) => ({ content: [{ type: 'text', text: value }] })

function call(id: unknown, name: string, args: Record<string, unknown>, meta: { progressToken?: unknown }): void {
  switch (name) {
    case 'noise':
      isForgotten = mode === 'forgets'
      write('DEBUG: something happened')
      write('{"torn": ')
      write('')
      break
    case 'die':
      process.stdout.write('{"jsonrpc":"2.0","id":', () => process.exit(3))
      return
    case 'huge':
      write(`{"jsonrpc":"2.0","method":"x","params":{"fill":"${'x'.repeat(17 * 1024 * 1024)}"}}`)
      break
    case 'giant':
      // The SDK writes the id last.
      write(JSON.stringify({ result: text('x'.repeat(17 * 1024 * 1024)), jsonrpc: '2.0', id }))
      return
    case 'ask':
      asking = { id, must: args['must'] === true }
      send({
        id: 'srv-1',
        method: 'elicitation/create',
        params: { message: 'who?', requestedSchema: { type: 'object', properties: {} } },
      })
      return
    case 'env':
      send({ id, result: text(`${process.env['PLAIN']} ${process.env['SECRET']} ${process.cwd()}`) })
      return
    case 'count':
      send({ id, result: text(String(initialized)) })
      return
    case 'slow':
      setTimeout(() => send({ id, result: text(cancelled.has(id) ? 'cancelled' : 'done') }), Number(args['ms']))
      return
    case 'progress':
      send({ method: 'notifications/progress', params: { progressToken: meta.progressToken, progress: 1, total: 2 } })
      break
  }
  send({ id, result: text(String(args['message'] ?? 'ok')) })
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params = {}, result, error } = JSON.parse(line)
  if (method === undefined) {
    const content = text(error ? `refused ${error.code}` : JSON.stringify(result))
    if (id === 'srv-1') send({ id: asking?.id, result: { ...content, ...(asking?.must ? { isError: true } : {}) } })
    return
  }
  if (isForgotten && method !== 'initialize') {
    if (id !== undefined) send({ id, error: { code: -32001, message: 'Session not found' } })
    return
  }
  switch (method) {
    case 'server/discover':
      if (mode === 'ends') process.exit(1)
      if (mode !== 'silent') send({ id, error: { code: -32601, message: 'Method not found' } })
      break
    case 'initialize':
      initialized++
      isForgotten = false
      send({
        id,
        result: {
          protocolVersion: '2024-11-05',
          capabilities: { tools: {} },
          serverInfo: { name: 'raw', version: '1' },
        },
      })
      break
    case 'tools/list':
      send({ id, result: { tools } })
      break
    case 'tools/call':
      call(id, params.name, params.arguments ?? {}, params._meta ?? {})
      break
    case 'notifications/cancelled':
      cancelled.add(params.requestId)
      break
    case 'ping':
      send({ id, result: {} })
  }
})
