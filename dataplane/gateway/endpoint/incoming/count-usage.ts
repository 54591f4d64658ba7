import type { Caller } from '../../../identity/caller.ts'
import type { Outcome } from '../../../telemetry/observe.ts'
import type { View } from '../../core/view.ts'
import type { Message } from '../../mcp/message.ts'
import { clientNameIn } from '../../request/request-details.ts'
import { CALL_TOOL } from '../../search/meta-tools.ts'
import type { SessionRecord } from '../../sessions/store/store.ts'
import { CLIENT_NOTE } from '../../usage/rows.ts'
import type { Usage } from '../../usage/usage.ts'

/** A request to the MCP endpoint as its counter sees it. */
interface CountedRequest {
  readonly message: Message | undefined
  readonly caller: Caller
  readonly session: { readonly record: Pick<SessionRecord, 'notes'> } | undefined
  readonly view: Pick<View, 'catalog'>
  readonly used: string | undefined
  readonly backend: string | undefined
  readonly startedAt: number
  readonly isPart: boolean
  readonly isInner: boolean
  readonly hasErrorResult: boolean
}

/**
 * Counts a tool call of a client that has ended. A call of `call_tool` counts as one of the tool that it names, steps of
 * workflows don't count, and a call that asked for input counts once. Callers choose names of tools, so one that is not
 * in the catalog has none here.
 */
export function countUsage(usage: Usage, request: CountedRequest, { result }: Outcome): void {
  const { message, caller, session, backend = '', startedAt, isPart } = request
  if (message?.method !== 'tools/call' || isPart || message.isContinued) return
  const tool = request.used ?? shownName(request, message)
  if (tool === CALL_TOOL && !request.isInner) return
  const client = clientNameIn(message) ?? session?.record.notes?.[CLIENT_NOTE] ?? ''
  const outcome = result === 'ok' && request.hasErrorResult ? 'error' : result
  usage.count(caller, { client, tool, backend, outcome }, performance.now() - startedAt)
}

function shownName({ view: { catalog } }: CountedRequest, message: Message): string {
  const name = message.parameter('name') ?? ''
  return catalog.routes.has(name) || catalog.composites.has(name) ? name : ''
}
