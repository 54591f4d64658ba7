import { workflowLimits } from '../../config/workflow/limits.ts'
import { PublicError } from '../../server/errors.ts'
import { boundTo, digestParams, seal, unseal } from '../call/suspended/request-state.ts'
import type { RequestContext } from '../request/exchange.ts'
import type { SharedKeys } from '../sessions/store/shared-keys.ts'
import { parseExact } from './exact-json.ts'
import { StepFailure } from './failure.ts'
import type { Progress } from './records.ts'

/** The content of a waiting workflow's state. `workflow`: digest of its definition; `call`: that of its arguments. */
interface Sealed {
  readonly workflow: string
  readonly call: string
  readonly progress: Progress
}

const USE = 'workflow-state'

/**
 * Seals the progress of a workflow, which its client returns to any replica. It is bound to the caller, the tool and
 * its arguments. Throws a StepFailure if it is too large for the client to keep.
 */
export function sealProgress(keys: SharedKeys, context: RequestContext, workflow: string, progress: Progress): string {
  const text = JSON.stringify({ workflow, call: digestParams(context), progress })
  if (text.length > workflowLimits.state)
    throw new StepFailure(
      `the results of its steps are too large to keep while the user is asked: ${text.length} characters of ${workflowLimits.state}`,
    )
  const [key] = keys.keysFor(USE)
  return seal(key, text, boundTo(context))
}

/** Opens a sealed progress. Throws `invalid_params` for anything that was not sealed here, or for another call. */
export function openProgress(keys: SharedKeys, context: RequestContext): Omit<Sealed, 'call'> {
  const state = context.message.parameter('requestState') ?? ''
  for (const key of keys.keysFor(USE)) {
    const text = unseal(key, state, boundTo(context))
    if (text === undefined) continue
    const { call, ...sealed } = parseExact(text) as Sealed
    if (call !== digestParams(context)) throw other('belongs to a call with other arguments: repeat them as they were')
    if (Date.now() > sealed.progress.startedAt + workflowLimits.workflowMs) throw other('has waited for too long')
    return sealed
  }
  throw other('is not one that this server gave')
}

const other = (message: string): PublicError =>
  new PublicError('invalid_params', { message: `params.requestState ${message}, or call the tool again.` })
