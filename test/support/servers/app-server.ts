import { answer, type RawServer, startRawServer, tool } from './raw-server.ts'

export const APPS = 'io.modelcontextprotocol/ui'
export const HTML = 'text/html;profile=mcp-app'
/** Capabilities of a client that shows apps. */
export const SHOWS_APPS = { extensions: { [APPS]: { mimeTypes: [HTML] } } }

export interface AppServerOptions {
  readonly era: 'modern' | 'legacy'
  /** URI of the page, which is not listed. */
  readonly page: string
  /** The server's own declaration. */
  readonly extension?: object
}

/** The part of a client's capabilities that servers of apps read. */
interface Capabilities {
  readonly extensions?: Readonly<Record<string, { readonly mimeTypes?: readonly string[] }>>
}

export interface AppServer extends RawServer {
  /** The clients' capabilities, by the tool that was then called. */
  readonly declared: Map<string, Capabilities>
  /** The contents of the page. */
  readonly contents: string
}

/** A server with an app (SEP-1865), whose lists depend on what its client can show. */
export async function startAppServer({ era, page, extension }: AppServerOptions): Promise<AppServer> {
  const declared = new Map<string, Capabilities>()
  const sessions = new Map<unknown, Capabilities>()
  const contents = JSON.stringify([
    {
      uri: page,
      mimeType: HTML,
      text: `<!DOCTYPE html>${page}`,
      _meta: { ui: { csp: { connectDomains: ['https://a.test'] } } },
    },
  ])
  const extensions = extension === undefined ? {} : { extensions: { [APPS]: extension } }
  const capabilities = { tools: {}, resources: {}, ...extensions }
  const meta = (ui: object) => `"_meta":${JSON.stringify({ k: 1, ui })}`
  const server = await startRawServer({
    era,
    call: () => undefined,
    before(request, res) {
      const { message, headers } = request
      const { method, params = {} } = message
      const json = (result: object | string, more: Record<string, string> = {}) => {
        const text = typeof result === 'string' ? result : JSON.stringify({ resultType: 'complete', ...result })
        res.writeHead(200, { 'content-type': 'application/json', ...more }).end(answer(request, text))
        return true
      }
      const declaration =
        era === 'legacy'
          ? sessions.get(headers['mcp-session-id'])
          : (params['_meta'] as Record<string, Capabilities> | undefined)?.[
              'io.modelcontextprotocol/clientCapabilities'
            ]
      switch (method) {
        case 'server/discover':
          if (era === 'legacy') return false
          return json({ supportedVersions: ['2026-07-28'], capabilities, ttlMs: 0, cacheScope: 'private' })
        case 'initialize': {
          if (era === 'modern') return false
          const id = `app-${sessions.size}`
          sessions.set(id, params['capabilities'] as Capabilities)
          const result = { protocolVersion: '2025-11-25', capabilities, serverInfo: { name: 'apps', version: '1' } }
          return json(result, { 'mcp-session-id': id })
        }
        case 'tools/list': {
          const withApps = declaration?.extensions?.[APPS]?.mimeTypes?.includes(HTML) === true
          const tools = withApps
            ? [
                tool('show', meta({ resourceUri: page })),
                tool('old', `"_meta":{"ui/resourceUri":${JSON.stringify(page)}}`),
                tool('refresh', meta({ resourceUri: page, visibility: ['app'] })),
              ]
            : [tool('show')]
          return json(`{"resultType":"complete","tools":[${tools.join(',')}]}`)
        }
        case 'tools/call':
          if (declaration !== undefined) declared.set(String(params['name']), declaration)
          return json({ content: [{ type: 'text', text: 'shown' }] })
        case 'resources/list':
          return json({ resources: [], ttlMs: 0, cacheScope: 'private' })
        case 'resources/templates/list':
          return json({ resourceTemplates: [], ttlMs: 0, cacheScope: 'private' })
        case 'resources/read':
          return json(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":${contents}}`)
        default:
          return false
      }
    },
  })
  return { ...server, declared, contents }
}
