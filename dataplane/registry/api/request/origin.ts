import type { IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { Origin } from '../../../telemetry/observe.ts'

type Asked = Pick<IncomingMessage, 'method' | 'headers' | 'socket'>

/**
 * Where a request to the registry comes from. Its path may name what a caller may not know of: `path` is the template of
 * its route.
 */
export const requestOrigin = ({ method, headers, socket }: Asked, path: string): Origin => ({
  incoming: () => ({ traceparent: headers['traceparent'], tracestate: headers['tracestate'] }),
  details: () => ({
    'http.request.method': method,
    'url.path': path,
    'url.scheme': (socket as Partial<TLSSocket>).encrypted === true ? 'https' : 'http',
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'user_agent.original': headers['user-agent'],
  }),
})
