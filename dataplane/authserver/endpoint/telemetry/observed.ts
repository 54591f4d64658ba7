import type { Operation, Origin, Outcome } from '../../../telemetry/observe.ts'
import { errorOfStatus } from '../../audit/events.ts'
import type { Front, FrontContext } from '../front.ts'

/** What is measured of requests to an endpoint; `route`: its path below the issuer. */
export const operationOf = (method: string, route: string): Operation => ({
  kind: 'auth-request',
  name: `${method} ${route}`,
})

/** Measures a request while it is answered. */
export async function observed(
  front: Front,
  c: FrontContext,
  operation: Operation,
  answer: () => Promise<Response>,
): Promise<Response> {
  const observation = front.observe(operation, originOf(front, c))
  c.var.request.observation = observation
  const response = await answer()
  observation.end(outcomeOf(c.var.error ?? (await errorIn(response))))
  return response
}

/** Neither the query of a request nor its body is told of. */
const originOf = (front: Front, c: FrontContext): Origin => {
  const { incoming } = c.env
  const { headers, method } = incoming
  return {
    incoming: () => ({ traceparent: headers['traceparent'], tracestate: headers['tracestate'] }),
    details: () => ({
      'http.request.method': method,
      'network.transport': 'tcp',
      'network.protocol.name': 'http',
      'client.address': front.addressOf(incoming),
      'user_agent.original': headers['user-agent'],
    }),
    target: () => c.var.grantType,
  }
}

/** The code of an answer of ours that says no; of a page, the nearest one. */
async function errorIn(response: Response): Promise<string | undefined> {
  if (response.status < 400) return undefined
  const isJson = response.headers.get('content-type') === 'application/json'
  const { error } = isJson ? ((await response.clone().json()) as { readonly error?: string }) : {}
  return error ?? errorOfStatus(response.status)
}

const outcomeOf = (code: string | undefined): Outcome =>
  code === undefined ? { result: 'ok' } : { result: code === 'access_denied' ? 'denied' : 'error', code }
