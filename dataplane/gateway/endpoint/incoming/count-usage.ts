import type { Caller } from '../../../identity/caller.ts'
import type { Outcome } from '../../../telemetry/observe.ts'
import type { View } from '../../core/view.ts'
import type { Message } from '../../mcp/message.ts'
import { clientNameIn } from '../../request/request-record.ts'
import { CALL_TOOL } from '../../search/meta-tools.ts'
import type { SessionRecord } from '../../sessions/store/store.ts'
import { CLIENT_NOTE } from '../../usage/rows.ts'
import type { Usage } from '../../usage/usage.ts'

/** The parts of an MCP request that are counted. */
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
 * Counts a client's tool call that has ended. A call of `call_tool` counts as a call of the tool that it names, steps
 * of workflows don't count, and a call with rounds of input counts once. Callers choose the names, so a name that is
 * not in the catalog is not recorded.
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
