import { PublicError } from '../../server/errors.ts'
import { type Backend, unreachable } from '../backends/backend/backend.ts'
import { connectionFailure } from '../backends/connection/failure.ts'
import type { RequestContext } from '../request/request-context.ts'
import { answerWithLink } from './link-answer.ts'

/**
 * Answers a request that some backends would have to be there for: with a link, where one of them waits for its caller to
 * log in at a provider, else by throwing the error that names them.
 */
export function answerUnreachable(request: RequestContext, backends: readonly Backend[]): void {
  const waiting = backends.find(({ caller }) => caller?.link !== undefined)
  if (waiting === undefined) throw unreachable(backends)
  request.run(() => offerLink(request, waiting))
}

async function offerLink(request: RequestContext, backend: Backend): Promise<void> {
  try {
    // The caller may have done so a moment ago.
    await backend.caller?.needed()
  } catch (error) {
    const { link } = connectionFailure(error)
    if (link === undefined) throw unreachable([backend])
    answerWithLink(request, await link())
    return
  }
  backend.refreshLists()
  throw new PublicError('backend_unavailable', {
    message: `The backend ${JSON.stringify(backend.name)} is being asked what it has; call again.`,
  })
}
