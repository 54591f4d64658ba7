import type { ServerResponse } from 'node:http'
import { answer, type RawRequest, type RawServer, startRawServer } from './raw-server.ts'

/** A server's lists as JSON texts, which a test changes while the server runs. */
export interface Shows {
  tools: string[]
  prompts: string[]
  resources: string[]
  resourceTemplates: string[]
  instructions: string | undefined
  /** JSON text of `contents`, by URI. */
  pages: Record<string, string>
  /** The most items on a page of a list. */
  pageSize: number
  /** More headers of lists and reads. */
  headers: Record<string, string>
  /** The tools for a request with these headers, in place of `tools`. */
  toolsFor?: (headers: RawRequest['headers']) => string[]
  /** JSON text of the apps extension that it declares. */
  apps: string
  /** The entries of its skills; undefined if it does not declare them. */
  skills: string[] | undefined
  /** JSON text of more members for every result, each with a comma after it. */
  more: string
  /** The text of the error with which it answers every list; undefined if it answers them. */
  failure: string | undefined
  /** Requests for the prompts are answered when it has settled. */
  promptsAfter: Promise<void> | undefined
}

export interface ChangingServer extends RawServer {
  readonly shows: Shows
  /** The times (`performance.now()`) at which its tools were listed. */
  readonly listedAt: number[]
  /** Sends a notification (JSON text) on every subscription of the modern era, and in every session of the legacy one. */
  notify(text: string): number
}

/** A server of one era that sends the test's texts byte for byte, and answers every call and read. */
export async function startChangingServer(
  era: 'modern' | 'legacy',
  first: Partial<Shows>,
  port?: number,
): Promise<ChangingServer> {
  const shows: Shows = {
    tools: [],
    prompts: [],
    resources: [],
    resourceTemplates: [],
    instructions: undefined,
    pages: {},
    pageSize: 1000,
    headers: {},
    apps: '{"mimeTypes":["text/html;profile=mcp-app"]}',
    skills: undefined,
    more: '',
    failure: undefined,
    promptsAfter: undefined,
    ...first,
  }
  const skillsExtension = () =>
    shows.skills === undefined ? '' : ',"io.modelcontextprotocol/skills":{"directoryRead":true}'
  const capabilities = () =>
    `"capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"completions":{},"extensions":{"io.modelcontextprotocol/ui":${shows.apps}${skillsExtension()}}}`
  const buildInstructions = () =>
    shows.instructions === undefined ? '' : `,"instructions":${JSON.stringify(shows.instructions)}`
  const complete = era === 'modern' ? '"resultType":"complete","ttlMs":0,"cacheScope":"private",' : ''
  const lists: Readonly<Record<string, 'tools' | 'prompts' | 'resources' | 'resourceTemplates'>> = {
    'tools/list': 'tools',
    'prompts/list': 'prompts',
    'resources/list': 'resources',
    'resources/templates/list': 'resourceTemplates',
  }
  const streams = new Set<ServerResponse>()
  const listedAt: number[] = []
  const server = await startRawServer({
    era,
    ...(port === undefined ? {} : { port }),
    call: (request) => answer(request, `{${complete}"content":[{"type":"text","text":"called"}]}`),
    async before(request, res) {
      const { method = '', params = {} } = request.message
      const sendResult = (result: string, headers = {}) => {
        res
          .writeHead(200, { 'content-type': 'application/json', ...shows.headers, ...headers })
          .end(answer(request, result.replace('{', `{${shows.more}`)))
        return true
      }
      const isStream = era === 'modern' ? method === 'subscriptions/listen' : request.method === 'GET'
      if (isStream) {
        res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
        streams.add(res)
        res.on('close', () => streams.delete(res))
        return true
      }
      if (method === 'tools/list') listedAt.push(performance.now())
      const list = lists[method]
      if (shows.failure !== undefined && (list !== undefined || method === 'ping')) {
        const error = `{"code":-32603,"message":"${shows.failure}","data":"${shows.failure}"}`
        res.writeHead(200, { 'content-type': 'application/json' })
        res.end(`{"jsonrpc":"2.0","id":${JSON.stringify(request.message.id)},"error":${error}}`)
        return true
      }
      if (shows.skills !== undefined) {
        if (method === 'skills/list') return sendResult(`{${complete}"skills":[${shows.skills.join(',')}]}`)
        if (method === 'skills/get') return sendResult(`{${complete}"skill":${shows.skills[0]}}`)
        if (method === 'resources/directory/read')
          return sendResult(`{${complete}"resources":[${shows.resources.join(',')}]}`)
      }
      if (list === 'prompts') await shows.promptsAfter
      if (list !== undefined) {
        const from = Number(params['cursor'] ?? 0)
        const all = (list === 'tools' ? shows.toolsFor?.(request.headers) : undefined) ?? shows[list]
        const items = all.slice(from, from + shows.pageSize)
        const next = from + shows.pageSize < all.length ? `,"nextCursor":"${from + shows.pageSize}"` : ''
        return sendResult(`{${complete}"${list}":[${items.join(',')}]${next}}`)
      }
      if (method === 'server/discover' && era === 'modern')
        return sendResult(`{${complete}"supportedVersions":["2026-07-28"],${capabilities()}${buildInstructions()}}`)
      if (method === 'initialize' && era === 'legacy')
        return sendResult(
          `{"protocolVersion":"2025-11-25",${capabilities()},"serverInfo":{"name":"changing","version":"1"}${buildInstructions()}}`,
          { 'mcp-session-id': `session-${Math.random()}` },
        )
      if (method === 'resources/read') {
        const uri = String(params['uri'])
        const contents = shows.pages[uri] ?? `[{"uri":${JSON.stringify(uri)},"text":"read"}]`
        return sendResult(`{${complete}"contents":${contents}}`)
      }
      if (method === 'prompts/get')
        return sendResult(`{${complete}"messages":[{"role":"user","content":{"type":"text","text":"got"}}]}`)
      if (method === 'completion/complete') return sendResult(`{${complete}"completion":{"values":["completed"]}}`)
      if (method === 'resources/subscribe' || method === 'ping') return sendResult('{}')
      return false
    },
  })
  return {
    ...server,
    shows,
    listedAt,
    notify(text) {
      for (const stream of streams) stream.write(`event: message\ndata: ${text}\n\n`)
      return streams.size
    },
  }
}
