import { PublicError } from '../../../server/errors.ts'
import type { Route } from '../../aggregation/route.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import type { Destination } from '../../call/asked.ts'
import type { EndpointRequest } from '../incoming/endpoint-exchange.ts'

/**
 * Where a route of a catalog leads for the caller of a request: to the caller's own backend of that name, or to the one
 * that is everybody's. Throws `backend_unavailable` where there is none any more.
 */
export function destinationOf({ view }: EndpointRequest, route: Route): Destination {
  const backend = view.backendNamed(route.backend)
  if (backend === undefined) throw new PublicError('backend_unavailable')
  return { backend, route }
}

/** At a backend, where nothing is renamed. `nameHeader`: what is asked for, as a header has it. */
export const at = (backend: Backend, nameHeader = '', tool = ''): Destination => ({
  backend,
  route: { backend: backend.name, tool, rename: undefined, nameHeader, paramHeaders: [] },
})
