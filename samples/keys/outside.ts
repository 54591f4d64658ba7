/**
 * An identity provider where people log in under any name, and an MCP server that needs a key of each user: `key-NAME-`
 * and eight digits or more. Usage: outside.ts ISSUER-OF-THE-GATEWAY PORT; `portico run` sets HOST and PORT.
 */
import { createServer, type IncomingMessage } from 'node:http'
import { localhostHostValidation, toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
// @ts-expect-error: it brings no types.
import Provider from 'oidc-provider'

const HOST = '127.0.0.1'
const SCOPES = ['openid', 'offline_access', 'profile']
const [, , gateway = '', port = ''] = process.argv

const provider = new Provider(`http://${HOST}:${port}`, {
  clients: [
    {
      client_id: 'portico',
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'],
      redirect_uris: [`${gateway}/oauth/callback`],
    },
  ],
  cookies: { keys: ['work'] },
  claims: { openid: ['sub'], profile: ['name'] },
  conformIdTokenClaims: false,
  issueRefreshToken: () => true,
  ttl: { AccessToken: 300, Grant: 86_400, IdToken: 300, Interaction: 600, RefreshToken: 86_400, Session: 86_400 },
  findAccount: (_: unknown, accountId: string) => ({
    accountId,
    claims: () => ({ sub: accountId, name: accountId }),
  }),
  // Nobody is asked here whether the gateway may: it asks for each of its clients.
  async loadExistingGrant({ oidc }: { oidc: { session: { accountId: string }; client: { clientId: string } } }) {
    const grant = new provider.Grant({ accountId: oidc.session.accountId, clientId: oidc.client.clientId })
    grant.addOIDCScope(SCOPES.join(' '))
    await grant.save()
    return grant
  },
})

/** The owner of the key that a request brings; undefined where it is none. */
const findOwner = ({ headers }: IncomingMessage) => /^key-([a-z]+)-\d{8,}$/.exec(String(headers['x-api-key']))?.[1]

function createTicketServer(owner: string): McpServer {
  const server = new McpServer({ name: 'tickets', version: '1.0.0' })
  const about = { title: 'My tickets', description: 'Lists your tickets.', annotations: { readOnlyHint: true } }
  server.registerTool('mine', about, async () => ({
    content: [{ type: 'text', text: `${owner} has no open tickets.` }],
  }))
  return server
}

const isLocalHost = localhostHostValidation()
const handle = provider.callback()

createServer((request, response) => {
  if (!isLocalHost(request, response)) return
  const path = request.url?.split('?')[0]
  if (path?.startsWith('/tickets/') !== true) return handle(request, response)
  const owner = findOwner(request)
  if (owner === undefined) response.writeHead(401).end()
  else if (path === '/tickets/me') response.end(owner)
  else
    toNodeHandler(createMcpHandler(() => createTicketServer(owner)))(request, response).catch(() => {
      response.destroy()
    })
}).listen(Number(port), HOST)

/** The server that `portico run` waits for. */
const own = toNodeHandler(createMcpHandler(() => new McpServer({ name: 'outside', version: '1.0.0' })))
createServer((request, response) => {
  if (isLocalHost(request, response)) own(request, response).catch(() => response.destroy())
}).listen(Number(process.env.PORT ?? 8080), process.env.HOST ?? HOST)
