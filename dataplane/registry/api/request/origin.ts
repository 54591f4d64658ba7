import type { IncomingMessage } from 'node:http'
import type { Origin } from '../../../telemetry/observe.ts'

/** Where a request to the registry comes from. Its path may name what a caller may not know of: it is left out. */
export const requestOrigin = ({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>): Origin => ({
  incoming: () => ({ traceparent: headers['traceparent'], tracestate: headers['tracestate'] }),
  details: () => ({
    'http.request.method': method,
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'user_agent.original': headers['user-agent'],
  }),
})
