import { request } from 'undici'
import { isObject } from '../../crds/settings/json.ts'
import { boundedAgent } from '../../dataplane/net/bounded-agent.ts'

/** The address and the credential for a call. Only the token comes from a browser. */
export interface Target {
  /** The URL of the MCP endpoint. */
  readonly url: string
  readonly token: string | undefined
}

export interface McpAnswer {
  readonly status: number
  /** `WWW-Authenticate`, if the workload requires a token. */
  readonly challenge: string | null
  readonly requestId: string | null
  /** The JSON-RPC message that answers the request; undefined if there is none. */
  readonly message: Readonly<Record<string, unknown>> | undefined
  /** The number of body bytes that were read, and whether there were more. */
  readonly bytes: number
  readonly isCut: boolean
  readonly text: string
  readonly durationMs: number
}

interface CallOptions {
  readonly signal?: AbortSignal
  /** The longest wait for a part of the answer. */
  readonly timeoutMs?: number
  /** Called with each notification that comes before the answer. */
  readonly onNotification?: (message: Readonly<Record<string, unknown>>) => void
}

const REVISION = '2026-07-28'
const TIMEOUT_MS = 60_000
/** A whole answer may take so many times the longest wait for a part of it. */
const LONGEST = 5
/** The most bytes of an answer that are read. */
const MOST_BYTES = 16 * 1024 * 1024

/**
 * Returns a name as a header value. A name with other characters than visible ASCII is encoded as the specification
 * says.
 */
const encodeHeader = (text: string): string =>
  /^[\x21-\x7e]+$/.test(text) && !text.startsWith('=?') ? text : `=?base64?${Buffer.from(text).toString('base64')}?=`

/**
 * Sends one request of the modern era. It does not follow redirects, because the token is for this workload only.
 * Throws an Error if nothing answers.
 */
export async function callMcp(
  { url, token }: Target,
  method: string,
  params: Readonly<Record<string, unknown>>,
  options: CallOptions = {},
): Promise<McpAnswer> {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': REVISION,
    'io.modelcontextprotocol/clientInfo': { name: 'portico-console', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } },
    progressToken: 1,
  }
  const started = performance.now()
  const { timeoutMs = TIMEOUT_MS } = options
  const response = await request(url, {
    dispatcher: boundedAgent,
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': REVISION,
      'mcp-method': method,
      // The modern era repeats the name of the tool from the body (MCP 2026-07-28, Streamable HTTP).
      ...(typeof params['name'] === 'string' && { 'mcp-name': encodeHeader(params['name']) }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { _meta, ...params } }),
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    signal: AbortSignal.any([AbortSignal.timeout(LONGEST * timeoutMs), ...(options.signal ? [options.signal] : [])]),
  })
  const { headers, statusCode } = response
  const isStream = String(headers['content-type']).startsWith('text/event-stream')
  const read = await (isStream ? readEvents(response.body, options) : readText(response.body))
  return {
    status: statusCode,
    challenge: headers['www-authenticate']?.toString() ?? null,
    requestId: headers['x-request-id']?.toString() ?? null,
    durationMs: Math.round(performance.now() - started),
    ...read,
  }
}

type Read = Pick<McpAnswer, 'message' | 'bytes' | 'isCut' | 'text'>
type Body = AsyncIterable<Buffer>

async function readText(body: Body): Promise<Read> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > MOST_BYTES) return { message: undefined, bytes, isCut: true, text: '' }
    chunks.push(chunk)
  }
  const text = Buffer.concat(chunks).toString()
  return { message: parseMessage(text), bytes, isCut: false, text }
}

/** The end of an event, and the most characters of it that may be in an earlier chunk. */
const BREAK = /\r?\n\r?\n/
const LONGEST_BREAK = 3

/** Splits a text into events. A long event is joined once: searching it at each chunk would take quadratic time. */
class EventSplitter {
  #pieces: string[] = []
  #end = ''

  /** Adds a chunk. Returns the events that are whole now. */
  push(text: string): readonly string[] {
    this.#pieces.push(text)
    const latest = this.#end + text
    this.#end = latest.slice(-LONGEST_BREAK)
    if (!BREAK.test(latest)) return []
    const events = this.rest.split(BREAK)
    this.#pieces = [events.pop() ?? '']
    return events
  }

  get rest(): string {
    return this.#pieces.join('')
  }
}

/** Reads server-sent events until the answer to the request. */
async function readEvents(body: Body, { onNotification }: CallOptions): Promise<Read> {
  const decoder = new TextDecoder()
  const splitter = new EventSplitter()
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > MOST_BYTES) return { message: undefined, bytes, isCut: true, text: '' }
    for (const event of splitter.push(decoder.decode(chunk, { stream: true }))) {
      const text = readData(event)
      const message = parseMessage(text)
      if (message === undefined) continue
      if ('id' in message && ('result' in message || 'error' in message)) return { message, bytes, isCut: false, text }
      onNotification?.(message)
    }
  }
  return { message: undefined, bytes, isCut: false, text: splitter.rest }
}

const readData = (event: string): string =>
  event
    .split(/\r?\n/)
    .flatMap((line) => (line.startsWith('data:') ? [line.slice(5).trimStart()] : []))
    .join('\n')

function parseMessage(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** A tool in a workload's list. None of its members is trusted. */
export type Tool = ReturnType<typeof readTool>

const MOST_PAGES = 100

const text = (value: unknown): string => (typeof value === 'string' ? value : '')

/** The list of tools, or the reason why there is none. */
export type Listed = { readonly tools: readonly Tool[] } | { readonly refused: McpAnswer } | { readonly failed: string }

/** Lists the tools that the token's owner sees. It never rejects. */
export async function listTools(target: Target): Promise<Listed> {
  const tools: Tool[] = []
  let cursor: string | undefined
  try {
    for (let page = 0; page < MOST_PAGES; page++) {
      const answer = await callMcp(target, 'tools/list', cursor === undefined ? {} : { cursor }, { timeoutMs: 10_000 })
      const { result } = answer.message ?? {}
      if (answer.status !== 200 || !isObject(result)) return { refused: answer }
      const found = Array.isArray(result['tools']) ? result['tools'].filter(isObject) : []
      tools.push(...found.map(readTool))
      if (typeof result['nextCursor'] !== 'string') return { tools }
      cursor = result['nextCursor']
    }
    return { tools }
  } catch (error) {
    return { failed: (error as Error).message }
  }
}

const readTool = (item: Readonly<Record<string, unknown>>) => ({
  name: text(item['name']),
  title: text(item['title']),
  description: text(item['description']),
  inputSchema: item['inputSchema'],
  annotations: isObject(item['annotations']) ? item['annotations'] : {},
})
