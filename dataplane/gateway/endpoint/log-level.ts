import { PublicError } from '../../server/errors.ts'
import { LEVELS } from '../mcp/log-levels.ts'
import type { EndpointRequest } from './incoming/endpoint-exchange.ts'

/** `logging/setLevel`: kept with the session, sent to the backends that it is open with, and to others when they are. */
export function setLogLevel(request: EndpointRequest): void {
  const level = request.message.parameter('level')
  const { session } = request
  if (session === undefined || level === undefined || !LEVELS.includes(level))
    throw new PublicError('invalid_params', { message: `params.level must be one of ${LEVELS.join(', ')}.` })
  const noted = session.setLogLevel(level)
  for (const backendSession of session.openBackendSessions) backendSession.setLogLevel(level)
  if (noted === undefined) request.result('{}')
  else request.run(() => noted.then(() => request.result('{}')))
}
