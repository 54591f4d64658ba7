import { decodeJwt } from 'jose'
import type { Operation, Origin, Outcome } from '../../telemetry/observe.ts'
import { LOGIN_CLAIM } from '../../upstream-tokens/index.ts'
import { errorOfStatus } from '../audit/events.ts'
import type { FlowPosition } from '../login/login.ts'
import type { EndpointContext, EndpointParts } from './parts.ts'

/** Returns the operation under which a request to an endpoint is measured. `route` is its path below the issuer. */
export const describeOperation = (method: string, route: string): Operation => ({
  kind: 'auth-request',
  name: `${method} ${route}`,
})

export async function observed(
  parts: EndpointParts,
  c: EndpointContext,
  operation: Operation,
  answer: () => Promise<Response>,
): Promise<Response> {
  const observation = parts.observe(operation, describeOrigin(parts, c))
  c.var.request.observation = observation
  const response = await answer()
  observation.end(toOutcome(c.var.error ?? (await errorIn(response))))
  return response
}

/** Returns the measured attributes of a request, without its query and body. */
const describeOrigin = (parts: EndpointParts, c: EndpointContext): Origin => {
  const { incoming } = c.env
  const { headers, method } = incoming
  return {
    incoming: () => ({ traceparent: headers['traceparent'], tracestate: headers['tracestate'] }),
    details: () => ({
      'http.request.method': method,
      'network.transport': 'tcp',
      'network.protocol.name': 'http',
      'client.address': parts.addressOf(incoming),
      'user_agent.original': headers['user-agent'],
    }),
    target: () => c.var.grantType,
  }
}

/** Returns the error code of an answer. A page has none, so its status gives the nearest code. */
async function errorIn(response: Response): Promise<string | undefined> {
  if (response.status < 400) return undefined
  const isJson = response.headers.get('content-type') === 'application/json'
  const { error } = isJson ? ((await response.clone().json()) as { readonly error?: string }) : {}
  return error ?? errorOfStatus(response.status)
}

const toOutcome = (code: string | undefined): Outcome =>
  code === undefined ? { result: 'ok' } : { result: code === 'access_denied' ? 'denied' : 'error', code }

/** Returns the trace context of a request if its span is sampled. A login that the request begins stores it. */
export const findTrace = ({ var: { request } }: EndpointContext): string | undefined =>
  request.observation?.isSampled === true ? request.observation.trace?.traceparent : undefined

/** Notes the login that a request continues, and links the request's span to the request that began the login. */
export const found = (c: EndpointContext) => (position: FlowPosition) => {
  c.var.record?.found(position)
  c.var.request.observation?.link(position.trace)
  c.set('loginTrace', position.trace)
}

/** Links the span of a request, if it has one, to the request that began this login. */
export const linkToLogin = (parts: EndpointParts, c: EndpointContext, login: string): Promise<void> =>
  linkTo(parts, c, async () => login)

/** Links the span of a token request to the login of the access token in its answer, if the token has one. */
export const linkByToken = (parts: EndpointParts, c: EndpointContext, answer: Response): Promise<void> =>
  linkTo(parts, c, async () => {
    if (!answer.ok) return undefined
    const { access_token: token } = (await answer.clone().json()) as { readonly access_token: string }
    return decodeJwt(token)[LOGIN_CLAIM]
  })

async function linkTo(
  { grants, log }: EndpointParts,
  { var: { request } }: EndpointContext,
  find: () => Promise<unknown>,
): Promise<void> {
  const { observation } = request
  if (observation?.isSampled !== true) return
  try {
    const login = await find()
    if (typeof login === 'string') observation.link(await grants.findTrace(login))
  } catch (error) {
    // A failure to link a trace must not fail the request.
    log().debug({ err: error }, 'the trace of a request can’t be linked to its login')
  }
}
