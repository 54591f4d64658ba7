/**
 * Two identity providers, and behind each an MCP server that requires its token. People log in under any name. Usage:
 * providers.ts ISSUER-OF-THE-GATEWAY PORT PORT; `portico run` sets HOST and PORT.
 */
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { localhostHostValidation, toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
// @ts-expect-error: it brings no types.
import Provider from 'oidc-provider'

const HOST = '127.0.0.1'
const SCOPES = ['openid', 'offline_access', 'profile']
const [, , gateway = '', ...ports] = process.argv
const places = ['work', 'home'].map((name, index) => ({ name, port: Number(ports[index]) }))

const buildUrl = (port: number) => `http://${HOST}:${port}`

function createProvider(name: string, port: number) {
  const provider = new Provider(buildUrl(port), {
    clients: [
      {
        client_id: 'portico',
        token_endpoint_auth_method: 'none',
        grant_types: ['authorization_code', 'refresh_token'],
        redirect_uris: [`${gateway}/oauth/callback`],
      },
    ],
    // Both are at one host, whose cookies they share.
    cookies: {
      keys: [name],
      names: { session: `${name}_session`, interaction: `${name}_interaction`, resume: `${name}_resume` },
    },
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
  return provider
}

/** The account that an access token of this provider is for; undefined where it is none. */
async function readAccount(provider: InstanceType<typeof Provider>, { headers }: IncomingMessage) {
  const token = /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1]
  const found = token === undefined ? undefined : await provider.AccessToken.find(token)
  return found?.accountId as string | undefined
}

function createAccountServer(name: string, account: string): McpServer {
  const server = new McpServer({ name, version: '1.0.0' })
  const description = `Under which name you are logged in at the provider "${name}".`
  server.registerTool('whoami', { title: 'Who am I?', description, annotations: { readOnlyHint: true } }, async () => ({
    content: [{ type: 'text', text: `You are ${account} at ${name}.` }],
  }))
  return server
}

const isLocalHost = localhostHostValidation()

for (const { name, port } of places) {
  const provider = createProvider(name, port)
  const handle = provider.callback()
  const listener: RequestListener = (request, response) => {
    if (!isLocalHost(request, response)) return
    if (request.url?.split('?')[0] !== '/mcp') return handle(request, response)
    readAccount(provider, request)
      .then(async (account) => {
        if (account === undefined) response.writeHead(401, { 'www-authenticate': 'Bearer' }).end()
        else await toNodeHandler(createMcpHandler(() => createAccountServer(name, account)))(request, response)
      })
      .catch(() => response.destroy())
  }
  createServer(listener).listen(port, HOST)
}

/** The server that `portico run` waits for. */
const own = toNodeHandler(createMcpHandler(() => new McpServer({ name: 'providers', version: '1.0.0' })))
createServer((request, response) => {
  if (isLocalHost(request, response)) own(request, response).catch(() => response.destroy())
}).listen(Number(process.env.PORT ?? 8080), process.env.HOST ?? HOST, () => {
  for (const { name, port } of places) console.error(`the provider ${name} is at ${buildUrl(port)}`)
})
