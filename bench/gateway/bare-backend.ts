/**
 * The fastest MCP server that can be written on node:http, in one process: its cost must not hide the gateway's. It
 * checks nothing; it answers `tools/list` with 20 tools and every call with the arguments it got.
 * Usage: bare-backend.ts modern|legacy [PORT]
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { TOOLS as tools } from './bare-tools.ts'

const era = process.argv[2]
const modern = era === 'modern' ? { resultType: 'complete', ttlMs: 0, cacheScope: 'private' } : {}
let calls = 0

const results: Record<string, (params: Record<string, unknown>) => object | undefined> = {
  'server/discover': () =>
    era === 'modern' ? { ...modern, supportedVersions: ['2026-07-28'], capabilities: { tools: {} } } : undefined,
  initialize: () => ({
    protocolVersion: '2025-11-25',
    capabilities: { tools: {} },
    serverInfo: { name: 'bare', version: '1' },
  }),
  'tools/list': () => ({ ...modern, tools }),
  'tools/call': ({ arguments: args }) => {
    calls++
    const { message } = args as { message: string }
    return { ...(era === 'modern' ? { resultType: 'complete' } : {}), content: [{ type: 'text', text: message }] }
  },
}

const server = createServer((req, res) => {
  const chunks: Buffer[] = []
  req.on('data', (chunk: Buffer) => chunks.push(chunk))
  req.on('end', () => {
    if (req.method !== 'POST') {
      res.writeHead(req.method === 'DELETE' ? 204 : 405).end()
      return
    }
    const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString())
    if (id === undefined) {
      res.writeHead(202).end()
      return
    }
    const result = results[method]?.(params)
    const body =
      result === undefined
        ? `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"error":{"code":-32601,"message":"unknown"}}`
        : `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${JSON.stringify(result)}}`
    const session = method === 'initialize' ? { 'mcp-session-id': Math.random().toString(36).slice(2) } : {}
    res.writeHead(result === undefined ? 400 : 200, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      ...session,
    })
    res.end(body)
  })
})
server.keepAliveTimeout = 60_000
server.listen(Number(process.argv[3] ?? 0), '127.0.0.1', () =>
  process.send?.({ port: (server.address() as AddressInfo).port }),
)
process.on('message', () => process.send?.({ calls, cpu: process.cpuUsage() }))
process.on('disconnect', () => process.exit())
