/**
 * Measures over HTTP what tool search saves and misses, beside a gateway that lists all tools. A token is four
 * characters of the JSON that a model gets. Queries are tasks in people's own words (tasks.ts), and five random words
 * of each description (the same in each run). Search is by words: no embedding model is available offline. Usage:
 * run.ts [CATALOG.json …], of which the first 500 entries count.
 */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { RpcMessage, RpcResult } from '../../test/support/gateway/rpc-message.ts'
import { type Bench, runBench } from '../shipped/bench.ts'
import { type CatalogTool, catalogTools } from './catalog.ts'
import { tasks } from './tasks.ts'

const MOST_TOOLS = 500
const MOST_FOUND = 8
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
}
const tools = catalogTools(process.argv.slice(2), MOST_TOOLS)
const tokens = (text: string): number => Math.round(text.length / 4)
const percent = (part: number, whole: number): string => `${((part / whole) * 100).toFixed(0)} %`

async function ask(url: string, method: string, params: Record<string, unknown> = {}): Promise<RpcResult> {
  const name = params['name']
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': method,
    ...(typeof name === 'string' && { 'mcp-name': name }),
  }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: META } })
  const { result, error } = (await (await fetch(`${url}/mcp`, { method: 'POST', headers, body })).json()) as RpcMessage
  if (error !== undefined) throw new Error(JSON.stringify(error))
  return result
}

async function startBackend() {
  const server = createServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const { id, method } = JSON.parse(Buffer.concat(chunks).toString() || '{}')
      const result = {
        ...{ resultType: 'complete', ttlMs: 0, cacheScope: 'private' },
        ...(method === 'tools/list' ? { tools } : { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } }),
      }
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, result }))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}

async function startGateway(bench: Bench, name: string, backend: string, more: object): Promise<string> {
  return (await bench.gateway({ name, ...more, backends: [{ name: 'b', url: backend }] })).origin
}

/** Returns five words of a description that are not in the name; undefined if there are fewer. */
function knownItem({ name, description }: CatalogTool, number: number): string | undefined {
  const words = [...new Set(description.toLowerCase().match(/[\p{L}]{4,}/gu) ?? [])]
  const own = words.filter((word) => !name.toLowerCase().includes(word) && !USUAL.has(word))
  if (own.length < 5) return undefined
  return Array.from({ length: 5 }, (_, at) => own[(number * 7 + at * 3) % own.length]).join(' ')
}
const USUAL: ReadonlySet<string> = new Set([
  'model',
  'context',
  'protocol',
  'server',
  'servers',
  'with',
  'that',
  'your',
])

interface Found {
  first: number
  among: number
  all: number
  tokens: number
  ms: number
}

/** Measures how often the right tool is found, which `isMeant` tells by its name. */
async function measure(
  url: string,
  queries: readonly (readonly [string, (name: string) => boolean])[],
): Promise<Found> {
  const found: Found = { first: 0, among: 0, all: queries.length, tokens: 0, ms: 0 }
  for (const [query, isMeant] of queries) {
    const started = performance.now()
    const { content, structuredContent } = await ask(url, 'tools/call', { name: 'find_tool', arguments: { query } })
    found.ms += performance.now() - started
    found.tokens += tokens(content[0].text)
    const at = structuredContent.tools.findIndex(({ name }: { name: string }) => isMeant(name))
    if (at === 0) found.first++
    if (at !== -1) found.among++
  }
  return found
}

const tell = (what: string, { first, among, all, ms }: Found) =>
  console.log(
    `${what.padEnd(34)} ${percent(among, all).padStart(6)} among ${MOST_FOUND}, ${percent(first, all).padStart(6)} first, of ${all}; ${(ms / all).toFixed(1)} ms each`,
  )

async function compare(bench: Bench): Promise<void> {
  const backend = await startBackend()
  try {
    const url = `http://127.0.0.1:${(backend.address() as AddressInfo).port}/mcp`
    const listing = await startGateway(bench, 'listing', url, {})
    const searching = await startGateway(bench, 'searching', url, { optimizer: { maxToolsToReturn: MOST_FOUND } })
    const listed = tokens(JSON.stringify((await ask(listing, 'tools/list')).tools))
    const meta = tokens(JSON.stringify((await ask(searching, 'tools/list')).tools))
    const known = tools.flatMap((tool, number) => {
      const query = knownItem(tool, number)
      return query === undefined ? [] : [[query, (name: string) => name === `b_${tool.name}`] as const]
    })
    const people = tasks
      .filter(([, part]) => tools.some(({ name }) => name.includes(part)))
      .map(([task, part]) => [task, (name: string) => name.includes(part)] as const)
    // The first search builds the index.
    const first = await measure(searching, [['index', () => false]])
    const items = await measure(searching, known)
    console.log(`${tools.length} tools: ${listed} tokens to list them all; ${meta} for the two of tool search`)
    console.log(
      `a search gives ${Math.round(items.tokens / items.all)} tokens; ${(meta + items.tokens / items.all).toFixed(0)} with the two: ${percent(meta + items.tokens / items.all, listed)} of listing them all`,
    )
    console.log(`the first search, which builds the index: ${first.ms.toFixed(0)} ms`)
    tell('words of descriptions', items)
    if (people.length > 0) tell('tasks in people’s own words', await measure(searching, people))
  } finally {
    backend.close()
    backend.closeAllConnections()
  }
}

await runBench(compare)
