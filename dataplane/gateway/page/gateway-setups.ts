import { quoted, type Setup, setupsFor } from '../../pages/client-setup.ts'
import { MODERN } from '../mcp/revisions.ts'
import type { Overview } from './overview.ts'

/** What is typed to connect a client to the gateway. */
export function gatewaySetups({ name, endpoint, access }: Overview): readonly Setup[] {
  const needsToken = access.kind === 'login'
  const known = setupsFor(name, { type: 'http', url: endpoint })
  return [
    // Its connectors are called from its maker's servers, which reach no address of this kind.
    ...known.filter(({ client }) => client !== 'Claude Desktop' || endpoint.startsWith('https:')),
    {
      client: 'MCP Inspector',
      hint: 'Run this in a terminal: it lists the tools. Without --cli and what follows the address it opens in a browser.',
      text: `npx @modelcontextprotocol/inspector --cli ${quoted(endpoint)} --transport http --method tools/list${
        needsToken ? ' --header "Authorization: Bearer $TOKEN"' : ''
      }`,
    },
    { client: 'curl', hint: 'Run this in a terminal: it lists the tools.', text: curlCommand(endpoint, needsToken) },
    {
      client: 'TypeScript',
      hint: 'With the package @modelcontextprotocol/client.',
      text: program(endpoint, needsToken),
    },
  ]
}

function curlCommand(endpoint: string, needsToken: boolean): string {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta } })
  return [
    `curl -s ${quoted(endpoint)}`,
    ...(needsToken ? ['-H "Authorization: Bearer $TOKEN"'] : []),
    "-H 'Content-Type: application/json'",
    "-H 'Accept: application/json, text/event-stream'",
    `-H 'MCP-Protocol-Version: ${MODERN}'`,
    "-H 'Mcp-Method: tools/list'",
    `-d '${body}'`,
  ].join(' \\\n  ')
}

function program(endpoint: string, needsToken: boolean): string {
  const options = needsToken
    ? `, {\n  requestInit: { headers: { Authorization: 'Bearer ' + process.env.TOKEN } },\n}`
    : ''
  return `import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'

const client = new Client({ name: 'my-program', version: '1.0.0' })
const endpoint = new URL(${JSON.stringify(endpoint)})
await client.connect(new StreamableHTTPClientTransport(endpoint${options}))
console.log(await client.listTools())
await client.close()`
}
