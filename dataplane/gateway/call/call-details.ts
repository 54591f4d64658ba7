import type { Details } from '../../telemetry/observe.ts'
import type { Route } from '../aggregation/catalog.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { Message } from '../mcp/message.ts'
import { messageDetails } from '../request/request-details.ts'

interface Asked {
  readonly message: Message
  readonly route: Route
  readonly backend: Backend
}

/** Whom a call asks for what, by the semantic conventions for MCP. Of the backend's URL nothing but host and port. */
export function callDetails({ message, route, backend }: Asked): Details {
  const { hostname, port, protocol } = backend.url
  const isHttp = protocol === 'http:' || protocol === 'https:'
  return {
    ...messageDetails(message),
    ...(message.method === 'tools/call' ? { 'gen_ai.tool.name': route.tool } : {}),
    'mcp.protocol.version': backend.revision ?? undefined,
    'network.transport': isHttp ? 'tcp' : 'pipe',
    ...(isHttp
      ? { 'server.address': hostname, 'server.port': Number(port || (protocol === 'https:' ? 443 : 80)) }
      : {}),
  }
}
