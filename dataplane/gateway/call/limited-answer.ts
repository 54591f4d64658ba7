import { PublicError } from '../../server/errors.ts'
import { errorResult, resultText } from '../mcp/rpc-text.ts'
import type { Refusal } from '../rate-limits/rate-limits.ts'
import type { RequestContext } from '../request/request-context.ts'

/**
 * Answers a tool call that may not be made now. A gateway answers by a result that says so, which a model reads and
 * understands; a proxy, which is a server to others, as HTTP does (RFC 6585 section 4), and so where no result is waited for.
 */
export function answerLimited(context: RequestContext, refusal: Refusal): void {
  const { setup, era, message, reply } = context
  const error = limited(refusal)
  if (setup.config.role === 'proxy' || message.params?.['task'] !== undefined || message.id === undefined) {
    context.fail(error)
    return
  }
  reply.json(200, resultText(message.id, errorResult(era, error.message, error.data)))
  context.ended({ result: 'error', code: error.code })
}

function limited({ retryAfterSeconds }: Refusal): PublicError {
  const seconds = retryAfterSeconds === 1 ? 'a second' : `${retryAfterSeconds} seconds`
  return new PublicError('rate_limited', {
    message: `Too many calls; this one may be made in ${seconds}.`,
    data: { retryAfterSeconds },
    headers: { 'Retry-After': String(retryAfterSeconds) },
  })
}
