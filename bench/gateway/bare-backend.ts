/**
 * The fastest MCP server on node:http, so that its cost does not hide the gateway's. It checks nothing and answers
 * calls with their arguments. Usage: bare-backend.ts modern|legacy [PORT] [tools=N] [skills=N: that many skills, and
 * one resource beside them]
 */
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { makeTools } from './bare-tools.ts'

const era = process.argv[2]
const modern = era === 'modern' ? { resultType: 'complete', ttlMs: 0, cacheScope: 'private' } : {}
const options = Object.fromEntries(process.argv.slice(4).map((arg) => arg.split('=')))
const tools = makeTools(Number(options['tools'] ?? 20))
const skillCount = Number(options['skills'] ?? 0)
const capabilities = {
  tools: {},
  ...(skillCount > 0 && { resources: {}, extensions: { 'io.modelcontextprotocol/skills': {} } }),
}
let calls = 0

const results: Record<string, (params: Record<string, unknown>) => object | undefined> = {
  'server/discover': () =>
    era === 'modern' ? { ...modern, supportedVersions: ['2026-07-28'], capabilities } : undefined,
  initialize: () => ({
    protocolVersion: '2025-11-25',
    capabilities,
    serverInfo: { name: 'bare', version: '1' },
  }),
  'tools/list': () => ({ ...modern, tools }),
  'tools/call': ({ arguments: args }) => {
    calls++
    const { message } = args as { message: string }
    return { ...(era === 'modern' ? { resultType: 'complete' } : {}), content: [{ type: 'text', text: message }] }
  },
}

if (skillCount > 0) Object.assign(results, skillResults(skillCount))

/** The answers of a server with skills, each one file, and one resource that belongs to none. */
function skillResults(count: number): typeof results {
  const text = (name: string) =>
    `---\nname: ${name}\ndescription: What this one is for, as it is told.\n---\nThe text of a skill.\n`
  const files = new Map<string, string>([['file:///plain.md', text('plain')]])
  for (let index = 0; index < count; index++) files.set(`skill://skill-${index}/SKILL.md`, text(`skill-${index}`))
  const skills = [...files].slice(1).map(([uri, text], index) => ({
    uri,
    frontmatter: { name: `skill-${index}`, description: 'What this one is for, as it is told.' },
    resources: [{ uri, digest: `sha256:${createHash('sha256').update(text).digest('hex')}`, size: text.length }],
  }))
  return {
    'skills/list': () => ({ ...modern, skills }),
    'resources/list': () => ({ ...modern, resources: [...files.keys()].map((uri) => ({ uri, name: uri })) }),
    'resources/templates/list': () => ({ ...modern, resourceTemplates: [] }),
    'resources/read': ({ uri }) => ({
      ...modern,
      contents: [{ uri: uri as string, mimeType: 'text/markdown', text: files.get(uri as string) }],
    }),
  }
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
